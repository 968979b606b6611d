"""Gateways and workers of the Redis transport in the test's own loop, quick to notice things."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from redis_server import RedisServer
from transport_jobs import MODEL, make_announcement, make_job, make_result

from transport.messages import Job, JobResult
from transport.protocols import Delivery
from transport.redis.client import ClientConfig, RedisJobClient
from transport.redis.connections import RedisConfig
from transport.redis.consumer import ConsumerConfig, RedisJobConsumer
from transport.redis.events import TransportEvent
from transport.redis.intake import IntakeConfig
from transport.redis.mailbox import MailboxConfig

LEASE_S = 0.15
_INTAKE = IntakeConfig(lease_s=LEASE_S, scan_s=0.02)
RENEWS = ConsumerConfig(_INTAKE, renew_s=LEASE_S / 4)
NEVER_RENEWS = ConsumerConfig(_INTAKE, renew_s=1_000)  # to the others it is dead
QUICK = ClientConfig(MailboxConfig(keep_alive_s=0.05), discovery_s=0.02)


@dataclass
class Events:
    """Counts what the transport says."""

    seen: Counter[TransportEvent] = field(default_factory=Counter)

    def __call__(self, event: TransportEvent, model: str) -> None:
        assert model in ("", MODEL)
        self.seen[event] += 1


def where(redis: RedisServer) -> RedisConfig:
    return RedisConfig(redis.url, block_s=0.1)


@contextlib.asynccontextmanager
async def gateway(
    redis: RedisServer, config: ClientConfig = QUICK, events: Events | None = None
) -> AsyncIterator[RedisJobClient]:
    client = RedisJobClient(where(redis), config, events or Events())
    await client.start()
    try:
        yield client
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def worker(
    redis: RedisServer,
    name: str = "w1",
    config: ConsumerConfig = RENEWS,
    events: Events | None = None,
) -> AsyncIterator[RedisJobConsumer]:
    """One that serves the model, and says so now and then, unless to the others it is dead."""
    consumer = RedisJobConsumer(where(redis), name, config, events or Events())
    await consumer.start()
    await consumer.announce(make_announcement())
    heartbeat = asyncio.create_task(_heartbeat(consumer, config.renew_s))
    try:
        yield consumer
    finally:
        heartbeat.cancel()
        await consumer.close()


async def receive(consumer: RedisJobConsumer, count: int = 1) -> list[Delivery]:
    deliveries: list[Delivery] = []
    async with asyncio.timeout(10):
        while len(deliveries) < count:
            deliveries += await consumer.receive(MODEL, 1_000, 0.05)
    return deliveries


async def submit(client: RedisJobClient, job: Job | None = None) -> asyncio.Task[JobResult]:
    """In the background; returns once it is in its queue."""
    job = job or make_job()
    async with asyncio.timeout(5):
        while MODEL not in (models := await client.models()) or not models[MODEL].live_workers:
            await asyncio.sleep(0.001)
    before = await _jobs(client)
    task = asyncio.create_task(client.submit(job))
    while await _jobs(client) == before:
        assert not task.done()
        await asyncio.sleep(0)
    return task


@contextlib.asynccontextmanager
async def answering(consumer: RedisJobConsumer) -> AsyncIterator[None]:
    """Answer everything, each job with a figure of its own: see `expected`."""
    task = asyncio.create_task(_answer(consumer))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def expected(job: Job) -> float:
    return float(int(job.job_id.removeprefix("job-")))


async def _answer(consumer: RedisJobConsumer) -> None:
    while True:
        deliveries = await consumer.receive(MODEL, 1_000, 0.05)
        for delivery in await consumer.renew(deliveries):
            await consumer.complete(delivery, make_result(delivery.job, expected(delivery.job)))


async def _heartbeat(consumer: RedisJobConsumer, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        await consumer.announce(make_announcement())


async def _jobs(client: RedisJobClient) -> int:
    return (await client.backlog(MODEL, "bulk")).jobs
