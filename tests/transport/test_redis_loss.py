"""Redis that forgets, restarts, breaks connections, or has no room."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from redis_keyspace import left_behind, miscounted
from redis_server import RedisServer, running_redis
from redis_sides import (
    QUICK,
    Events,
    answering,
    expected,
    gateway,
    receive,
    submit,
    where,
    worker,
)
from transport_jobs import MODEL, make_job, make_result

from transport.messages import Job, JobError
from transport.redis.client import ClientConfig, RedisJobClient
from transport.redis.keys import model_keys, reply_key
from transport.redis.mailbox import MailboxConfig

WaitUntil = Callable[..., Awaitable[None]]
QUEUE = model_keys(MODEL).queues[0]
NOTICED_S = 2.0


async def answers(client: RedisJobClient, jobs: list[Job]) -> None:
    """Each job has its own answer."""
    results = await asyncio.gather(*[client.submit(job) for job in jobs])
    assert [result.rows[0, 0] for result in results] == [expected(job) for job in jobs]


async def test_forgotten_jobs_are_submitted_again(redis: RedisServer) -> None:
    events = Events()
    async with worker(redis) as consumer, gateway(redis, events=events) as client:
        waiting = [await submit(client) for _ in range(5)]
        running = await receive(consumer, 2)
        redis.call("FLUSHALL")
        for delivery in running:  # whoever answers what is gone answers nobody
            await consumer.complete(delivery, make_result(delivery.job, -1.0))
        async with answering(consumer), asyncio.timeout(NOTICED_S):
            results = await asyncio.gather(*waiting)
        assert min(result.rows[0, 0] for result in results) >= 0
        assert events.seen["resubmitted"] == 5
        assert events.seen["duplicate_reply"] == 0
    assert not left_behind(redis)


async def test_redis_that_restarts_empty_loses_no_job() -> None:
    events = Events()
    with running_redis() as redis:
        async with worker(redis) as consumer, gateway(redis, events=events) as client:
            waiting = [await submit(client) for _ in range(5)]
            redis.kill()
            late = asyncio.create_task(answers(client, [make_job()]))  # while there is none
            redis.start()
            async with answering(consumer), asyncio.timeout(2 * NOTICED_S):
                await asyncio.gather(*waiting, late)
            assert events.seen["resubmitted"] >= 5
            assert events.seen["reconnected"] >= 3
        assert not left_behind(redis)


async def test_default_settings_notice_within_two_seconds(redis: RedisServer) -> None:
    async with worker(redis) as consumer, gateway(redis, ClientConfig()) as client:
        waiting = await submit(client)
        redis.call("FLUSHALL")
        async with answering(consumer), asyncio.timeout(NOTICED_S):
            await waiting


async def test_group_that_is_gone_is_made_again(redis: RedisServer) -> None:
    async with worker(redis) as consumer, gateway(redis) as client:
        waiting = [await submit(client) for _ in range(4)]
        (running,) = await consumer.receive(MODEL, 1, 1.0)
        redis.call("XGROUP", "DESTROY", QUEUE, "w")
        await consumer.complete(running, make_result(running.job))  # its entry is still there
        async with answering(consumer):
            await asyncio.gather(*waiting)
    assert not left_behind(redis)


async def test_jobs_submitted_before_there_is_a_group_are_delivered(redis: RedisServer) -> None:
    async with gateway(redis) as client:
        async with worker(redis):
            while not (await client.models()):
                await asyncio.sleep(0.001)
        redis.call("DEL", *model_keys(MODEL).queues)
        async with worker(redis) as consumer:
            redis.call("DEL", *model_keys(MODEL).queues)
            while not (await client.models())[MODEL].live_workers:
                await asyncio.sleep(0.001)
            task = asyncio.create_task(answers(client, [make_job()]))
            async with answering(consumer), asyncio.timeout(5):
                await task


async def test_forgotten_scripts_are_loaded_again(redis: RedisServer) -> None:
    async with worker(redis) as consumer, gateway(redis) as client, answering(consumer):
        for _ in range(3):
            redis.call("SCRIPT", "FLUSH")
            await answers(client, [make_job() for _ in range(3)])


async def test_broken_connections_lose_and_repeat_nothing(redis: RedisServer) -> None:
    events = Events()
    async with (
        worker(redis, events=events) as consumer,
        gateway(redis, events=events) as client,
        answering(consumer),
    ):
        tasks = []
        for _ in range(20):
            jobs = [make_job() for _ in range(5)]
            tasks.append(asyncio.create_task(answers(client, jobs)))
            await asyncio.sleep(0.005)
            redis.call("CLIENT", "KILL", "TYPE", "normal")
        async with asyncio.timeout(10):
            await asyncio.gather(*tasks)
        assert events.seen["reconnected"] >= 20
        assert events.seen["resubmitted"] == 0
    assert not left_behind(redis)


async def test_answer_that_came_while_the_reader_was_away_is_read(redis: RedisServer) -> None:
    async with worker(redis) as consumer, gateway(redis) as client:
        task = await submit(client)
        (delivery,) = await receive(consumer)
        redis.call("CLIENT", "PAUSE", "200", "WRITE")
        answering_ = asyncio.create_task(consumer.complete(delivery, make_result(delivery.job)))
        await asyncio.sleep(0.02)
        redis.call("CLIENT", "KILL", "TYPE", "normal")
        await asyncio.gather(task, answering_)


async def test_delivery_whose_answer_was_lost_is_found_again(redis: RedisServer) -> None:
    async with worker(redis) as consumer, gateway(redis) as client:
        assert await consumer.receive(MODEL, 1, 0.01) == []
        task = await submit(client)
        redis.call("XREADGROUP", "GROUP", "w", "w1", "COUNT", "1", "STREAMS", QUEUE, ">")
        redis.call("CLIENT", "KILL", "TYPE", "normal")
        (delivery,) = await receive(consumer)
        assert delivery.attempt == 1
        await consumer.complete(delivery, make_result(delivery.job))
        await task
    assert not left_behind(redis)


async def test_cancelled_receive_loses_nothing(redis: RedisServer) -> None:
    async with worker(redis) as consumer, gateway(redis) as client:
        receiving = asyncio.create_task(consumer.receive(MODEL, 100, 5.0))
        await asyncio.sleep(0.01)
        task = asyncio.create_task(client.submit(make_job()))
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        async with answering(consumer), asyncio.timeout(5):
            await task
    assert not left_behind(redis)


async def test_server_that_takes_no_writes_is_left_for_one_that_does(redis: RedisServer) -> None:
    async with worker(redis) as consumer, gateway(redis) as client:
        redis.call("REPLICAOF", "127.0.0.1", "1")
        async with answering(consumer), asyncio.timeout(10):
            waiting = [asyncio.create_task(client.submit(make_job())) for _ in range(3)]
            await asyncio.wait(waiting, timeout=0.1)
            assert not any(task.done() for task in waiting)
            redis.call("REPLICAOF", "NO", "ONE")
            await asyncio.gather(*waiting)


async def test_full_memory_is_overload_and_what_runs_is_answered(redis: RedisServer) -> None:
    async with worker(redis) as consumer, gateway(redis) as client:
        running = await submit(client)
        deliveries = await receive(consumer)
        waiting = await submit(client)
        redis.call("CONFIG", "SET", "maxmemory", "1")
        try:
            with pytest.raises(JobError) as caught:
                await client.submit(make_job())
            assert caught.value.code == "overloaded"
            for delivery in (*deliveries, *await receive(consumer)):
                await consumer.complete(delivery, make_result(delivery.job))
            await asyncio.gather(running, waiting)
        finally:
            redis.call("CONFIG", "SET", "maxmemory", "0")
        assert not miscounted(redis)


async def test_gateway_without_redis_says_so_at_once() -> None:
    with running_redis() as redis:
        config = ClientConfig(MailboxConfig(keep_alive_s=0.02, healthy_s=0.1), discovery_s=0.02)
        async with worker(redis), gateway(redis, config) as client:
            assert client.healthy
            redis.kill()
            async with asyncio.timeout(5):
                while client.healthy:
                    await asyncio.sleep(0.001)
            with pytest.raises(JobError, match="not_ready"):
                await client.submit(make_job())
            redis.start()
            async with asyncio.timeout(5):
                while not client.healthy:
                    await asyncio.sleep(0.001)


async def test_gateway_waits_for_a_redis_that_is_not_there_yet() -> None:
    with running_redis() as redis:
        redis.kill()
        client = RedisJobClient(where(redis), QUICK)
        starting = asyncio.create_task(client.start())
        await asyncio.sleep(0.05)
        assert not starting.done()
        redis.start()
        await asyncio.wait_for(starting, 5)
        assert redis.call("EXISTS", reply_key(client.name)) == "1"
        await client.close()
        assert not left_behind(redis)
