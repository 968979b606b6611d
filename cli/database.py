"""What the commands on the database share: the store, the nudge, and how a failure is told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
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


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[KeyStore]:
    store = KeyStore(settings.database)
    try:
        yield store
    finally:
        await store.close()


async def read(settings: Settings, use: Callable[[KeyStore], Awaitable[Result]]) -> Result:
    """Raises SchemaOutdated and SchemaNewer, besides what `use` raises."""
    async with open_store(settings) as store:
        await store.check_schema()
        return await use(store)


async def change(
    settings: Settings, use: Callable[[KeyStore], Awaitable[Result]], *, may_be_first: bool = False
) -> Result:
    """As `read`, and then tell the gateways, where a Redis is named that reaches them.

    `may_be_first`: make the database where there is none.
    """
    # Before the change, so that a Redis that cannot be used is told while nothing is done.
    connections = None
    if settings.redis_url is not None:
        connections = Connections(redis_config(settings), lambda *_: None)
    try:
        async with open_store(settings) as store:
            await (store.prepare() if may_be_first else store.check_schema())
            result = await use(store)
        if connections is not None:
            await RedisNudge(connections).send()
        return result
    finally:
        if connections is not None:
            await connections.close()
