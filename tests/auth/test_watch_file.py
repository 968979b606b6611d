"""What a running server does when the SQLite file goes, or comes back as another."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from key_server import KeyServer
from structlog.testing import capture_logs

from auth.errors import StoreUnavailable
from auth.pepper import Peppers
from auth.record import NewKey
from auth.snapshot import EMPTY
from auth.store import KeyStore

WaitUntil = Callable[..., Awaitable[None]]


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def server(store: KeyStore, peppers: Peppers) -> KeyServer:
    return KeyServer(store, lambda: peppers)


async def test_without_a_database_the_door_is_open_and_no_file_appears(
    server: KeyServer, database: Path
) -> None:
    await server.watch.refresh()
    await server.watch.refresh()
    assert server.authenticator.is_open
    assert not database.parent.exists()


async def test_keys_go_on_working_while_the_database_is_away(
    server: KeyServer, store: KeyStore, database: Path, peppers: Peppers, wait_until: WaitUntil
) -> None:
    await store.migrate()
    key, _ = await store.create(NewKey(name="a"), peppers)
    await server.watch.refresh()
    away = database.with_name("away.db")
    database.rename(away)
    with pytest.raises(StoreUnavailable, match="has gone"):
        await server.watch.refresh()
    with capture_logs() as logs:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(server.watch.run())
            await wait_until(lambda: logs)
            database.write_text("damaged " * 100)
            with pytest.raises(StoreUnavailable, match="not a database"):
                await server.watch.refresh()
            assert server.admits(key)
            away.replace(database)
            late, _ = await store.create(NewKey(name="late"), peppers)
            await wait_until(lambda: server.admits(late))
            await wait_until(lambda: len(logs) > 1)
            running.cancel()
    assert [entry["event"] for entry in logs] == ["key_refresh_failed", "key_refresh_recovered"]
    assert logs[0]["error"] == "StoreUnavailable"


async def test_a_lost_database_opens_nothing(
    server: KeyServer, store: KeyStore, database: Path, peppers: Peppers
) -> None:
    await store.migrate()
    key, _ = await store.create(NewKey(name="a"), peppers)
    await server.watch.refresh()
    database.unlink()
    await store.migrate()
    await server.watch.refresh()
    assert server.authenticator.snapshot == EMPTY
    assert not server.authenticator.is_open
    assert not server.admits(key)


async def test_a_database_made_anew_is_read_whole_at_the_same_revision(
    server: KeyServer, store: KeyStore, database: Path, peppers: Peppers
) -> None:
    await store.migrate()
    old, _ = await store.create(NewKey(name="old"), peppers)
    await server.watch.refresh()
    database.unlink()
    with pytest.raises(StoreUnavailable):
        await server.watch.refresh()
    await store.migrate()
    new, _ = await store.create(NewKey(name="new"), peppers)
    await server.watch.refresh()
    assert server.admits(new)
    assert not server.admits(old)
