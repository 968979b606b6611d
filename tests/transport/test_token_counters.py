"""Counters of tokens that somebody else damaged, or whose jobs: they mend by themselves."""

import asyncio

import pytest
from redis_keyspace import left_behind, miscounted
from redis_server import RedisServer
from redis_sides import NEVER_RENEWS, QUICK, gateway, receive, submit, worker
from transport_jobs import MODEL, make_announcement, make_job, make_result

from transport.messages import JobError
from transport.redis.entries import job_keys
from transport.redis.keys import GROUP, model_keys
from transport.redis.scripts import WITHDRAW

DAY_S = 86_400
QUEUE, COUNTER = model_keys(MODEL).queues[0], model_keys(MODEL).tokens[0]


@pytest.mark.parametrize("answered", [True, False])
async def test_counter_that_was_deleted_is_never_negative(
    redis: RedisServer, answered: bool
) -> None:
    async with worker(redis, "w1") as consumer, gateway(redis, QUICK) as client:
        waiting = [await submit(client, make_job((5,))) for _ in range(2)]
        deliveries = await receive(consumer, 2)
        redis.call("DEL", COUNTER)
        if answered:
            await consumer.complete(deliveries[0], make_result(deliveries[0].job))
        else:
            waiting[0].cancel()
        await asyncio.wait([waiting[0]])
        assert redis.call("GET", COUNTER) == "0"
        assert DAY_S - 60 < int(redis.call("TTL", COUNTER)) <= DAY_S
        await consumer.complete(deliveries[1], make_result(deliveries[1].job))
        await waiting[1]
    assert not left_behind(redis)


@pytest.mark.parametrize("vanish", [f"DEL {QUEUE}", f"XTRIM {QUEUE} MAXLEN 0"])
@pytest.mark.parametrize("answered", [True, False])
async def test_counter_whose_jobs_vanished_is_right_when_one_is_answered_or_withdrawn(
    redis: RedisServer, vanish: str, answered: bool
) -> None:
    # Its only heartbeat is the first, which would mend it too.
    async with worker(redis, "w1", NEVER_RENEWS) as consumer, gateway(redis) as client:
        waiting = [await submit(client, make_job((5,))) for _ in range(2)]
        deliveries = await receive(consumer, 2)
        redis.call(*vanish.split())
        assert redis.call("GET", COUNTER) == "10"
        if answered:
            await consumer.complete(deliveries[0], make_result(deliveries[0].job))
        else:
            waiting[0].cancel()
            await asyncio.wait([waiting[0]])
        assert redis.call("GET", COUNTER) == "0"
        assert DAY_S - 60 < int(redis.call("TTL", COUNTER)) <= DAY_S
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


async def test_withdrawal_of_a_job_that_nobody_knows_mends_the_counter_of_an_empty_queue(
    redis: RedisServer,
) -> None:
    async with gateway(redis) as client:
        redis.call("SET", COUNTER, "5")
        await WITHDRAW.run(
            client._connections.commands, job_keys(MODEL, "job-unknown"), 1, GROUP, "", 3
        )
        assert redis.call("GET", COUNTER) == "0"


async def test_late_answer_leaves_the_tokens_of_others(redis: RedisServer) -> None:
    async with worker(redis, "w1") as consumer, gateway(redis) as client:
        waiting = [await submit(client, make_job((5,))) for _ in range(2)]
        deliveries = await receive(consumer, 2)
        for _ in range(2):
            await consumer.complete(deliveries[0], make_result(deliveries[0].job))
        assert redis.call("GET", COUNTER) == "5"
        await consumer.complete(deliveries[1], make_result(deliveries[1].job))
        await asyncio.gather(*waiting)


async def test_heartbeat_mends_the_counter_of_an_empty_queue_and_no_other(
    redis: RedisServer,
) -> None:
    async with worker(redis, "w1", NEVER_RENEWS) as consumer, gateway(redis) as client:
        await consumer.announce(make_announcement())
        assert redis.call("EXISTS", COUNTER) == "0"
        waiting = [
            await submit(client, make_job((5,))),
            await submit(client, make_job((7,), lane="bulk")),
        ]
        redis.call("DEL", QUEUE)
        await consumer.announce(make_announcement())
        assert redis.call("GET", COUNTER) == "0"
        assert 0 < int(redis.call("TTL", COUNTER)) <= DAY_S
        assert redis.call("GET", model_keys(MODEL).tokens[1]) == "7"
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
    assert not left_behind(redis)


@pytest.mark.parametrize("damage", [("SET", COUNTER, "x"), ("LPUSH", COUNTER, "x")])
@pytest.mark.parametrize("answered", [True, False])
async def test_counter_that_is_none_costs_no_job(
    redis: RedisServer, damage: tuple[str, ...], answered: bool
) -> None:
    async with worker(redis, "w1", NEVER_RENEWS) as consumer, gateway(redis) as client:
        first = await submit(client, make_job((5,)))
        (delivery,) = await receive(consumer)
        redis.call("DEL", COUNTER)
        redis.call(*damage)
        second = await submit(client, make_job((7,)))
        assert redis.call("GET", COUNTER) == "7"
        assert 0 < int(redis.call("TTL", COUNTER)) <= DAY_S
        redis.call("DEL", COUNTER)
        redis.call(*damage)
        if answered:
            await consumer.complete(delivery, make_result(delivery.job))
            await asyncio.wait_for(first, 2)
        else:
            first.cancel()
            await asyncio.wait([first])
        assert redis.call("GET", COUNTER) == "0"
        second.cancel()
        with pytest.raises((asyncio.CancelledError, JobError)):
            await second
        assert not miscounted(redis)
