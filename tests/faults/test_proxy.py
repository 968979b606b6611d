"""What the proxy does to a connection is what its faults are called after."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from faults.proxy import Proxy
from redis_server import RedisServer, free_port, running_redis

WaitUntil = Callable[..., Awaitable[None]]
INCR = b"INCR n\r\n"


@pytest.fixture
async def behind() -> AsyncIterator[tuple[RedisServer, Proxy]]:
    port = free_port()
    with running_redis(port=port) as redis:
        proxy = Proxy(port)
        await proxy.start()
        yield redis, proxy
        await proxy.close()


@asynccontextmanager
async def connected(
    proxy: Proxy,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def test_commands_and_replies_pass(behind: tuple[RedisServer, Proxy]) -> None:
    _, proxy = behind
    async with connected(proxy) as (reader, writer):
        for expected in (b":1\r\n", b":2\r\n"):
            writer.write(INCR)
            assert await reader.readline() == expected
        assert proxy.connections == 1


async def test_command_whose_reply_is_dropped_has_run(behind: tuple[RedisServer, Proxy]) -> None:
    redis, proxy = behind
    proxy.drop_share = 1.0
    async with connected(proxy) as (reader, writer):
        writer.write(INCR)
        assert await reader.read() == b""
        assert redis.call("GET", "n") == "1"
        assert proxy.dropped == 1


async def test_half_closed_connection_is_still_served(
    behind: tuple[RedisServer, Proxy], wait_until: WaitUntil
) -> None:
    redis, proxy = behind
    async with connected(proxy) as (reader, writer):
        writer.write(INCR)
        await reader.readline()
        proxy.half_close()
        assert await reader.read() == b""
        writer.write(INCR)
        await wait_until(lambda: redis.call("GET", "n") == "2")
        proxy.forget_half_closed()
        await wait_until(lambda: proxy.connections == 0)


async def test_black_hole_takes_everything_and_gives_it_back_when_it_ends(
    behind: tuple[RedisServer, Proxy],
) -> None:
    redis, proxy = behind
    proxy.black_hole()
    async with connected(proxy) as (reader, writer):
        writer.write(INCR)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.1)
        assert redis.call("GET", "n") == ""
        proxy.pass_on()
        assert await reader.readline() == b":1\r\n"
