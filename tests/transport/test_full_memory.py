"""Redis whose memory is full: what waits there is still done, which frees some of it."""

import asyncio
from collections.abc import Iterator

import pytest
from redis_server import RedisServer
from redis_sides import answering, gateway, submit, worker
from transport_jobs import MODEL, make_announcement


@pytest.fixture
def full(redis: RedisServer) -> Iterator[RedisServer]:
    """`fill` it once what is to wait there does."""
    yield redis
    redis.call("CONFIG", "SET", "maxmemory", "0")


def fill(redis: RedisServer) -> None:
    redis.call("CONFIG", "SET", "maxmemory", "1")


async def test_broken_connection_does_not_keep_a_worker_from_its_jobs(full: RedisServer) -> None:
    async with worker(full) as consumer, gateway(full) as client:
        reading = asyncio.create_task(consumer.receive(MODEL, 1, 5.0))
        full.call("CLIENT", "KILL", "TYPE", "normal")
        assert await reading == []
        waiting = await submit(client)
        fill(full)
        full.call("CLIENT", "KILL", "TYPE", "normal")
        async with answering(consumer), asyncio.timeout(5):
            await waiting


async def test_worker_that_starts_late_does_the_jobs_that_wait(full: RedisServer) -> None:
    async with gateway(full) as client:
        async with worker(full, "early"):
            waiting = await submit(client)
        fill(full)
        async with worker(full, "late") as late, answering(late), asyncio.timeout(5):
            await waiting


async def test_worker_is_not_taken_for_dead(full: RedisServer) -> None:
    async with worker(full) as consumer:
        fill(full)
        full.call("DEL", f"florilege:hb:{MODEL}")
        await consumer.announce(make_announcement())
        assert full.call("HLEN", f"florilege:hb:{MODEL}") == "1"
