"""A worker that was stopped finds its jobs with another when it wakes, and leaves them there."""

from redis_keyspace import left_behind
from redis_server import RedisServer
from redis_sides import NEVER_RENEWS, gateway, receive, submit, worker
from transport_jobs import MODEL, make_result

from transport.redis.keys import model_keys

QUEUE = model_keys(MODEL).queues[0]


def owner(redis: RedisServer) -> tuple[str, int]:
    """Of the only delivery, and which attempt it is."""
    with redis.client() as direct:
        (row,) = direct.xpending_range(QUEUE, "w", "-", "+", 10)
    return row["consumer"].decode(), row["times_delivered"]


async def test_worker_that_wakes_leaves_its_jobs_to_who_claimed_them(redis: RedisServer) -> None:
    async with (
        worker(redis, "asleep", NEVER_RENEWS) as asleep,
        worker(redis, "heir") as heir,
        gateway(redis) as client,
    ):
        task = await submit(client)
        (first,) = await receive(asleep)
        (second,) = await receive(heir)
        assert await heir.begin(second)
        assert owner(redis) == ("heir", 2)
        assert not await asleep.begin(first)
        assert await asleep.renew([first]) == []
        await asleep.hand_back([first])
        assert owner(redis) == ("heir", 2)
        assert await heir.renew([second]) == [second]
        await heir.complete(second, make_result(second.job, 2.0))
        assert (await task).rows[0, 0] == 2.0
    assert not left_behind(redis)


async def test_worker_that_nobody_inherited_keeps_its_jobs(redis: RedisServer) -> None:
    async with worker(redis, "asleep", NEVER_RENEWS) as asleep, gateway(redis) as client:
        task = await submit(client)
        (delivery,) = await receive(asleep)
        assert await asleep.begin(delivery)
        assert await asleep.renew([delivery]) == [delivery]
        assert await asleep.renew([delivery]) == [delivery]  # not taken at its freshness
        assert owner(redis) == ("asleep", 1)
        await asleep.complete(delivery, make_result(delivery.job))
        await task
