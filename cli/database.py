"""What the commands on the database share: the store, the nudge, and how a failure is told."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import typer

from auth.errors import AuthError
from auth.store import KeyStore
from cli.console import complain
from cli.settings import Settings
from cli.wiring import redis_config
from transport.redis.connections import Connections
from transport.redis.errors import UnsupportedRedis
from transport.redis.nudge import RedisNudge

Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Exits with 1, and says why, where it fails."""
    try:
        return asyncio.run(work)
    except (AuthError, UnsupportedRedis) as error:
        complain(error)
        raise typer.Exit(1) from None
    except OSError as error:
        complain(f"{error.filename or 'the data directory'}: {error.strerror}")
        raise typer.Exit(1) from None


async def read(settings: Settings, use: Callable[[KeyStore], Awaitable[Result]]) -> Result:
    store = KeyStore(settings.database)
    try:
        return await use(store)
    finally:
        await store.close()


async def change(settings: Settings, use: Callable[[KeyStore], Awaitable[Result]]) -> Result:
    """As `read`, and then tell the gateways, where a Redis is named that reaches them."""
    if settings.redis_url is None:
        return await read(settings, use)
    # Before the change, so that a Redis that cannot be used is told while nothing is done.
    connections = Connections(redis_config(settings), lambda *_: None)
    try:
        result = await read(settings, use)
        await RedisNudge(connections).send()
        return result
    finally:
        await connections.close()
