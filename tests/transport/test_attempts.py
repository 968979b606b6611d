"""An attempt is a run that began: whoever waited beside a deadly job is none the worse."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from redis_server import RedisServer
from transport_jobs import MODEL, make_announcement, make_job, make_result

from transport.messages import JobError
from transport.protocols import Delivery
from transport.redis.client import RedisJobClient
from transport.redis.connections import RedisConfig
from transport.redis.consumer import ConsumerConfig, RedisJobConsumer
from transport.redis.intake import IntakeConfig

LEASE_S = 0.4  # longer than what a busy host may take between two lines of a test
NEVER_RENEWS = ConsumerConfig(IntakeConfig(lease_s=LEASE_S, scan_s=0.01), renew_s=1_000)


@asynccontextmanager
async def consumer(redis: RedisServer, name: str) -> AsyncIterator[RedisJobConsumer]:
    """One that stays silent from when it received something: to the others it is dead."""
    worker = RedisJobConsumer(RedisConfig(redis.url), name, NEVER_RENEWS)
    await worker.start()
    await worker.announce(make_announcement())
    yield worker
    await worker.close()


async def receive(worker: RedisJobConsumer, count: int) -> list[Delivery]:
    deliveries: list[Delivery] = []
    async with asyncio.timeout(5):
        while len(deliveries) < count:
            deliveries += await worker.receive(MODEL, 1_000, 0.01)
    return deliveries


async def test_job_that_ends_its_workers_takes_no_other_with_it(redis: RedisServer) -> None:
    async with AsyncExitStack() as stack:
        first, second, third = [
            await stack.enter_async_context(consumer(redis, name)) for name in ("w1", "w2", "w3")
        ]
        client = RedisJobClient(RedisConfig(redis.url))
        await client.start()
        jobs = [make_job() for _ in range(4)]
        tasks = []
        for job in jobs:
            tasks.append(asyncio.create_task(client.submit(job)))
            while client.outstanding < len(tasks) or not (await client.backlog(MODEL, "bulk")).jobs:
                await asyncio.sleep(0.001)
        deadly = (await receive(first, 4))[0]
        again = await receive(second, 4)
        assert [d.attempt for d in again] == [2] * 4
        (deadly,) = [d for d in again if d.job.job_id == deadly.job.job_id]
        assert await second.begin(deadly)
        for delivery in await receive(third, 3):
            assert delivery.attempt == 2
            assert delivery.job.job_id != deadly.job.job_id
            await third.complete(delivery, make_result(delivery.job))
        outcomes = {
            job.job_id: outcome
            for job, outcome in zip(
                jobs, await asyncio.gather(*tasks, return_exceptions=True), strict=True
            )
        }
        poisoned = outcomes.pop(deadly.job.job_id)
        assert isinstance(poisoned, JobError)
        assert poisoned.code == "poison"
        assert not [o for o in outcomes.values() if isinstance(o, BaseException)]
        await client.close()


async def test_attempt_at_a_job_that_was_taken_back_does_not_begin(redis: RedisServer) -> None:
    async with consumer(redis, "w1") as first, consumer(redis, "w2") as second:
        client = RedisJobClient(RedisConfig(redis.url))
        await client.start()
        task = asyncio.create_task(client.submit(make_job()))
        await receive(first, 1)
        (again,) = await receive(second, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not await second.begin(again)
        await client.close()


async def test_job_that_was_handed_back_has_as_many_attempts_as_any(redis: RedisServer) -> None:
    async with AsyncExitStack() as stack:
        first, second, third = [
            await stack.enter_async_context(consumer(redis, name)) for name in ("w1", "w2", "w3")
        ]
        client = RedisJobClient(RedisConfig(redis.url))
        await client.start()
        task = asyncio.create_task(client.submit(make_job()))
        await first.hand_back(await receive(first, 1))
        attempts = []
        for worker in (second, third):
            (delivery,) = await receive(worker, 1)
            attempts.append(delivery.attempt)
            await worker.begin(delivery)
        assert attempts == [1, 2]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()
