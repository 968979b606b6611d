"""What the scripts do, once and twice; and that nothing stays behind."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import numpy as np
import pytest
from redis_keyspace import left_behind, miscounted
from redis_server import RedisServer
from redis_sides import Events, answering, expected, gateway, receive, submit, where, worker
from transport_jobs import MODEL, make_announcement, make_job, make_result

from transport.messages import Job, JobError, JobResult
from transport.redis.client import ClientConfig
from transport.redis.connections import Connections
from transport.redis.entries import encode_fields, job_keys
from transport.redis.events import ignore
from transport.redis.keys import model_keys, reply_key
from transport.redis.replies import CHUNK_BYTES, cut
from transport.redis.scripts import SUBMIT

WaitUntil = Callable[..., Awaitable[None]]
QUEUE = model_keys(MODEL).queues[0]


async def put(redis: RedisServer, job: Job, how: str = "first", gateway: str = "g") -> bytes:
    """Run the submit script as a gateway does. The entry's id."""
    connections = Connections(where(redis), ignore)
    fields = encode_fields(job, job.encode(), gateway, job.budget_ms)
    entry_id, _ = await SUBMIT.run(
        connections.commands, job_keys(MODEL, job.job_id), 1, how, 100, 60_000, *fields
    )
    await connections.close()
    assert isinstance(entry_id, bytes)
    return entry_id


async def test_submit_that_runs_twice_adds_one_job(redis: RedisServer) -> None:
    job = make_job((7,))
    assert await put(redis, job) == await put(redis, job)
    assert (redis.call("XLEN", QUEUE), redis.call("GET", model_keys(MODEL).tokens[0])) == ("1", "7")


async def test_job_submitted_again_is_added_where_its_entry_is_gone(redis: RedisServer) -> None:
    job = make_job()
    first = await put(redis, job)
    assert await put(redis, job, "again") == first
    redis.call("XDEL", QUEUE, first.decode())
    assert await put(redis, job, "again") != first
    assert redis.call("XLEN", QUEUE) == "1"


async def test_full_queue_refuses_and_says_when_to_come_again(redis: RedisServer) -> None:
    async with worker(redis), gateway(redis, ClientConfig(max_jobs=1)) as client:
        waiting = await submit(client)
        with pytest.raises(JobError) as caught:
            await client.submit(make_job())
        assert caught.value.code == "overloaded"
        assert caught.value.retry_after_s
        waiting.cancel()


async def test_second_finish_changes_nothing(redis: RedisServer, wait_until: WaitUntil) -> None:
    events = Events()
    async with worker(redis, events=events) as consumer, gateway(redis, events=events) as client:
        task = await submit(client)
        (delivery,) = await receive(consumer)
        for value in (1.0, 2.0):
            await consumer.complete(delivery, make_result(delivery.job, value))
        assert (await task).rows[0, 0] == 1.0
        assert events.seen == {"late_finish": 1}
        await wait_until(lambda: redis.call("XLEN", reply_key(client.name)) == "0")
        assert not miscounted(redis)


@pytest.mark.parametrize("rows", [1, 40, 2_000])
async def test_answer_of_any_size_arrives_whole(redis: RedisServer, rows: int) -> None:
    job = make_job((1,) * rows)
    vectors = np.random.default_rng(0).normal(size=(rows, 384)).astype(np.float32)
    answer = JobResult(job.job_id, np.arange(rows + 1, dtype=np.int32), vectors)
    async with worker(redis) as consumer, gateway(redis) as client:
        task = await submit(client, job)
        (delivery,) = await receive(consumer)
        await consumer.complete(delivery, answer)
        np.testing.assert_array_equal((await task).rows, vectors)


def test_no_chunk_is_too_large_and_none_is_lost() -> None:
    frame = bytes(range(256)) * 1_000
    chunks = cut(frame)
    assert max(map(len, chunks)) <= CHUNK_BYTES
    assert b"".join(chunks) == frame


async def test_answers_that_were_read_are_trimmed(
    redis: RedisServer, wait_until: WaitUntil
) -> None:
    async with worker(redis) as consumer, answering(consumer), gateway(redis) as client:
        await asyncio.gather(*[client.submit(make_job()) for _ in range(50)])
        await wait_until(lambda: redis.call("XLEN", reply_key(client.name)) == "0")


async def test_answer_to_a_dead_gateway_leaves_nothing(redis: RedisServer) -> None:
    async with worker(redis) as consumer:
        await put(redis, make_job(), gateway="dead")
        (delivery,) = await receive(consumer)
        await consumer.complete(delivery, make_result(delivery.job))
        assert redis.call("EXISTS", reply_key("dead")) == "0"
        assert redis.call("XLEN", QUEUE) == "0"


async def test_jobs_past_their_deadline_take_no_room(redis: RedisServer) -> None:
    async with worker(redis) as consumer:
        for _ in range(3):
            await put(redis, make_job((900,), budget_ms=0))
        await put(redis, make_job((900,)))
        deliveries = await receive(consumer, 4)
        now_s = asyncio.get_running_loop().time()
        assert [d.deadline_s <= now_s for d in deliveries] == [True, True, True, False]


async def test_job_of_another_version_is_answered_and_not_run(redis: RedisServer) -> None:
    async with worker(redis) as consumer, gateway(redis) as client:
        job = make_job()
        task = asyncio.create_task(client.submit(job))
        while not (await client.backlog(MODEL, "online")).jobs:
            await asyncio.sleep(0)
        with redis.client() as direct:
            ((entry_id, fields),) = direct.xrange(QUEUE)
            direct.xdel(QUEUE, entry_id)
            direct.xadd(QUEUE, fields | {b"m": fields[b"m"].replace(b"version", b"vorsion")})
        assert await consumer.receive(MODEL, 100, 0.05) == []
        with pytest.raises(JobError, match="invalid"):
            await task


async def test_entry_that_no_gateway_wrote_ends_nothing(redis: RedisServer) -> None:
    async with worker(redis) as consumer:
        redis.call("XADD", QUEUE, "*", "what", "ever")
        redis.call("XADD", QUEUE, "*", "t", "x", "b", "x", "j", "x", "g", "x", "m", "x")
        await put(redis, make_job())
        (delivery,) = await receive(consumer)
        await consumer.complete(delivery, make_result(delivery.job))
        assert redis.call("XLEN", QUEUE) == "0"
    assert not left_behind(redis)


async def test_jobs_come_in_answers_of_bounded_size(redis: RedisServer) -> None:
    job = make_job((1,), budget_ms=0)
    with redis.client() as direct:
        fields = encode_fields(job, job.encode(), "g", 0)
        entry = dict(zip(fields[::2], fields[1::2], strict=True))
        for _ in range(600):
            direct.xadd(QUEUE, entry)
    async with worker(redis) as consumer:
        counts = [len(await consumer.receive(MODEL, 10, 0.01)) for _ in range(2)]
    assert counts == [512, 88]


async def test_counter_is_exact_whatever_becomes_of_jobs(redis: RedisServer) -> None:
    chance = random.Random(5)  # noqa: S311
    async with worker(redis) as consumer, gateway(redis) as client:
        tasks = []
        for _ in range(60):
            lane = chance.choice(["online", "bulk"])
            budget_ms = chance.choice([30, 60_000])
            length = chance.randint(1, 9)
            job = make_job((length,), lane=lane, budget_ms=budget_ms)
            tasks.append(asyncio.create_task(client.submit(job)))
            if chance.random() < 0.3:
                chance.choice(tasks).cancel()
            if chance.random() < 0.5:
                for delivery in await consumer.receive(MODEL, 20, 0.01):
                    if chance.random() < 0.7:
                        await consumer.complete(delivery, JobError("engine_failed"))
            assert not miscounted(redis)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (await client.backlog(MODEL, "bulk")).tokens == 0
    assert not left_behind(redis)


async def test_nothing_is_left_behind(redis: RedisServer) -> None:
    async with worker(redis) as consumer, gateway(redis) as client:
        async with answering(consumer):
            jobs = [make_job() for _ in range(30)]
            results = await asyncio.gather(*[client.submit(job) for job in jobs])
        assert [r.rows[0, 0] for r in results] == [expected(job) for job in jobs]
        task = await submit(client)
        await receive(consumer)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert not left_behind(redis)


async def test_what_is_left_behind_is_seen(redis: RedisServer) -> None:
    async with worker(redis):
        await put(redis, make_job((7,)))
        redis.call("SET", "florilege:other", "x")
        redis.call("PERSIST", "florilege:models")
    assert left_behind(redis) == [
        "florilege:models: no time to live",
        "florilege:other: not documented",
        f"{QUEUE}: 1 entries",
        f"{model_keys(MODEL).tokens[0]}: 7 tokens",
    ]
    redis.call("SET", model_keys(MODEL).tokens[0], "9")
    assert miscounted(redis) == [f"{QUEUE}: 7 tokens, counted 9"]


def test_model_named_like_a_lane_has_queues_of_its_own() -> None:
    keys = [model_keys(name) for name in ("a", "a:bulk", "a%3Abulk")]
    queues = [queue for key in keys for queue in key.queues]
    assert len(set(queues)) == len(queues)


async def test_model_of_any_name_is_found_under_its_name(redis: RedisServer) -> None:
    name = "Größe/a b:bulk%"
    async with worker(redis) as consumer, gateway(redis) as client:
        await consumer.announce(make_announcement(id=name))
        async with asyncio.timeout(5):
            while name not in await client.models():
                await asyncio.sleep(0.001)
        task = asyncio.create_task(client.submit(make_job(model=name)))
        (delivery,) = await consumer.receive(name, 100, 5.0)
        await consumer.complete(delivery, make_result(delivery.job))
        assert (await task).rows.shape == (1, 4)
