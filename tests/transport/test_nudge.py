"""The nudge over Redis: heard at once, by everybody, and never missed by more than a connection."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from redis_server import RedisServer, running_redis

from transport.redis.connections import Connections, RedisConfig
from transport.redis.keys import NUDGE
from transport.redis.nudge import RedisNudge


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@asynccontextmanager
async def nudging(server: RedisServer) -> AsyncIterator[RedisNudge]:
    connections = Connections(RedisConfig(server.url, block_s=0.05), lambda *_: None)
    yield RedisNudge(connections)
    await connections.close()


async def is_silent(nudge: RedisNudge) -> bool:
    """For several blocking reads."""
    waiting = asyncio.create_task(nudge.wait())
    done, _ = await asyncio.wait({waiting}, timeout=0.3)
    waiting.cancel()
    return not done


async def test_every_waiting_gateway_hears_a_nudge_at_once(redis: RedisServer) -> None:
    async with nudging(redis) as sender, nudging(redis) as one, nudging(redis) as other:
        assert await is_silent(one)
        assert await is_silent(other)
        started = time.perf_counter()
        waiting = asyncio.gather(one.wait(), other.wait())
        await sender.send()
        async with asyncio.timeout(1):
            await waiting
        print(f"\nheard by two after {(time.perf_counter() - started) * 1000:.0f} ms")


async def test_each_nudge_is_heard_once(redis: RedisServer) -> None:
    async with nudging(redis) as sender, nudging(redis) as gateway:
        for _ in range(3):
            await sender.send()
        await gateway.wait()
        assert await is_silent(gateway)
        await sender.send()
        await gateway.wait()


async def test_one_that_came_before_the_connection_is_heard(redis: RedisServer) -> None:
    async with nudging(redis) as sender, nudging(redis) as gateway:
        await sender.send()
        async with asyncio.timeout(1):
            await gateway.wait()


async def test_a_nudge_leaves_one_entry_that_ends_by_itself(redis: RedisServer) -> None:
    async with nudging(redis) as sender:
        for _ in range(5):
            await sender.send()
    assert redis.call("XLEN", NUDGE) == "1"
    assert 0 < int(redis.call("TTL", NUDGE)) <= 60


@pytest.mark.parametrize("loss", ["FLUSHALL", "a restart"])
async def test_after_a_loss_nudges_are_heard_again(redis: RedisServer, loss: str) -> None:
    async with nudging(redis) as sender, nudging(redis) as gateway:
        await sender.send()
        await gateway.wait()
        waiting = asyncio.create_task(gateway.wait())
        if loss == "FLUSHALL":
            redis.call("FLUSHALL")
        else:
            redis.kill()
            redis.start()
        await sender.send()
        async with asyncio.timeout(5):
            await waiting


async def test_a_server_whose_clock_is_behind_the_last_is_heard(redis: RedisServer) -> None:
    """As after a failover: its entries come before the one that was seen."""
    async with nudging(redis) as sender, nudging(redis) as gateway:
        redis.call("XADD", NUDGE, "9999999999999-0", "", "")
        await gateway.wait()
        waiting = asyncio.create_task(gateway.wait())
        redis.kill()
        redis.start()
        await sender.send()
        async with asyncio.timeout(5):
            await waiting


async def test_without_redis_a_send_does_nothing_and_a_wait_waits(redis: RedisServer) -> None:
    redis.kill()
    async with nudging(redis) as nudge:
        await nudge.send()
        assert await is_silent(nudge)
