"""A model whose last worker is gone: its jobs fail once nobody may be expected any more."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis_keyspace import left_behind, miscounted
from redis_server import RedisServer, running_redis
from redis_sides import RENEWS, answering, gateway, receive, submit, where, worker
from transport_jobs import MODEL, make_announcement, make_job

from transport.messages import JobError
from transport.redis.client import ClientConfig, RedisJobClient
from transport.redis.consumer import RedisJobConsumer
from transport.redis.mailbox import MailboxConfig

SILENT_S = 1.0  # of a worker that is dead; longer than what a busy host may take for a heartbeat


@pytest.fixture(autouse=True)
def short_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transport.redis.announce.DEAD_AFTER_MS", int(SILENT_S * 1000))


@asynccontextmanager
async def dying_worker(redis: RedisServer) -> AsyncIterator[RedisJobConsumer]:
    """Its only heartbeat is this one."""
    consumer = RedisJobConsumer(where(redis), "dead", RENEWS)
    await consumer.start()
    await consumer.announce(make_announcement())
    yield consumer
    await consumer.close()


async def test_jobs_without_a_worker_fail_as_soon_as_that_is_known(redis: RedisServer) -> None:
    async with dying_worker(redis) as dead, gateway(redis) as client:
        began_s = asyncio.get_running_loop().time()
        running = await submit(client, make_job((5,)))
        await receive(dead)
        waiting = await submit(client, make_job((7,), lane="bulk"))
        for task in (running, waiting):
            with pytest.raises(JobError) as caught:
                await asyncio.wait_for(task, 5)
            assert caught.value.code == "not_ready"
            assert caught.value.retry_after_s == ClientConfig().next_worker_s
        assert SILENT_S / 2 < asyncio.get_running_loop().time() - began_s < SILENT_S + 3
        assert client.live_workers(MODEL) == 0
        assert not miscounted(redis)
        assert redis.call("KEYS", "florilege:dd:*") == ""
    assert not left_behind(redis)


async def test_worker_that_comes_in_time_gets_the_jobs_of_the_last_one(redis: RedisServer) -> None:
    async with gateway(redis) as client:
        async with dying_worker(redis):  # it leaves in order, and is known to be gone at once
            waiting = [await submit(client) for _ in range(3)]
        async with asyncio.timeout(SILENT_S):
            while client.live_workers(MODEL):
                await asyncio.sleep(0.001)
        await asyncio.sleep(SILENT_S / 2)
        assert not any(task.done() for task in waiting)
        async with worker(redis, "heir") as heir, answering(heir), asyncio.timeout(5):
            await asyncio.gather(*waiting)
    assert not left_behind(redis)


async def test_redis_that_is_away_is_no_word_of_its_workers() -> None:
    """Jobs outlast an absence that is longer than what a worker may be silent."""
    with running_redis() as redis:
        async with worker(redis, "w1") as consumer, gateway(redis) as client:
            waiting = [await submit(client) for _ in range(3)]
            redis.kill()
            await asyncio.sleep(2 * SILENT_S)
            redis.start()
            async with answering(consumer), asyncio.timeout(10):
                await asyncio.gather(*waiting)


async def test_after_an_absence_of_redis_a_worker_lives_once_it_is_heard_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("transport.redis.announce.DEAD_AFTER_MS", 60_000)
    config = ClientConfig(MailboxConfig(keep_alive_s=0.02, healthy_s=0.1), discovery_s=0.02)
    with running_redis() as redis:
        client = RedisJobClient(where(redis), config)
        async with dying_worker(redis) as consumer:
            await client.start()
            assert client.live_workers(MODEL) == 1
            redis.call("CLIENT", "PAUSE", "300", "ALL")  # it keeps the heartbeat, still young
            async with asyncio.timeout(2):
                while client.healthy:
                    await asyncio.sleep(0.001)
                while not client.healthy:
                    await asyncio.sleep(0.001)
            assert client.live_workers(MODEL) == 0
            await consumer.announce(make_announcement())
            async with asyncio.timeout(2):
                while not client.live_workers(MODEL):
                    await asyncio.sleep(0.001)
            await client.close()


@pytest.mark.parametrize(
    "refusal", ["CLIENT PAUSE 1500 WRITE", "CONFIG SET min-replicas-to-write 1"]
)
async def test_redis_that_takes_no_heartbeats_is_no_word_of_its_workers(
    redis: RedisServer, refusal: str
) -> None:
    """It still answers what only reads."""
    config = ClientConfig(MailboxConfig(keep_alive_s=0.02, healthy_s=0.3), discovery_s=0.02)
    async with worker(redis, "w1") as consumer, gateway(redis, config) as client:
        waiting = [await submit(client) for _ in range(3)]
        redis.call(*refusal.split())
        await asyncio.sleep(3 * SILENT_S)
        redis.call("CONFIG", "SET", "min-replicas-to-write", "0")
        async with answering(consumer), asyncio.timeout(5):
            await asyncio.gather(*waiting)
            while not client.live_workers(MODEL):
                await asyncio.sleep(0.001)
    assert not left_behind(redis)


async def test_after_an_absence_of_redis_jobs_are_taken_before_any_worker_is_heard() -> None:
    config = ClientConfig(MailboxConfig(keep_alive_s=0.02, healthy_s=0.1), discovery_s=0.02)
    with running_redis() as redis:
        client = RedisJobClient(where(redis), config)
        async with dying_worker(redis) as consumer:
            await client.start()
            redis.call("CLIENT", "PAUSE", str(int(SILENT_S * 2_000)), "ALL")
            async with asyncio.timeout(5):
                while client.healthy:
                    await asyncio.sleep(0.001)
                while not client.healthy:
                    await asyncio.sleep(0.001)
            assert (await client.models())[MODEL].live_workers == 1
            assert client.live_workers(MODEL) == 0
            waiting = asyncio.create_task(client.submit(make_job()))
            await asyncio.sleep(SILENT_S / 4)
            await consumer.announce(make_announcement())
            async with answering(consumer), asyncio.timeout(5):
                await waiting
            await client.close()
