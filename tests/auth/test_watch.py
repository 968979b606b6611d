"""How a running server learns of keys, and what it does when it cannot."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hand_clock import HandClock
from structlog.testing import capture_logs

from auth.authenticator import Authenticator
from auth.errors import (
    InvalidKey,
    PepperMismatch,
    PepperMissing,
    SchemaOutdated,
    StoreUnavailable,
)
from auth.pepper import Peppers, create_peppers, load_peppers
from auth.record import NewKey
from auth.snapshot import EMPTY
from auth.store import KeyStore
from auth.watch import KeyWatch, check_peppers

WaitUntil = Callable[..., Awaitable[None]]


class Server:
    """The part of a server that knows keys."""

    def __init__(self, store: KeyStore, read_peppers: Callable[[], Peppers]) -> None:
        self.authenticator = Authenticator()
        self.watch = KeyWatch(self.authenticator, store, read_peppers, poll_s=0.001)

    def admits(self, key: str) -> bool:
        try:
            return self.authenticator.authenticate(key).kid is not None
        except InvalidKey:
            return False


@pytest.fixture
def server(store: KeyStore, peppers: Peppers) -> Server:
    return Server(store, lambda: peppers)


async def test_without_a_database_the_door_is_open_and_no_file_appears(
    server: Server, database: Path
) -> None:
    await server.watch.refresh()
    await server.watch.refresh()
    assert server.authenticator.is_open
    assert not database.parent.exists()


async def test_a_database_without_keys_leaves_the_door_open(
    server: Server, store: KeyStore
) -> None:
    await store.migrate()
    await server.watch.refresh()
    assert server.authenticator.is_open


async def test_the_first_key_closes_a_running_server_and_opens_it_to_its_holder(
    store: KeyStore, database: Path, wait_until: WaitUntil
) -> None:
    pepper_file = database.with_name("pepper")
    server = Server(store, lambda: load_peppers(pepper_file))
    await server.watch.refresh()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(server.watch.run())
        await store.migrate()
        key, _ = await store.create(NewKey(name="a"), create_peppers(pepper_file))
        await wait_until(lambda: not server.authenticator.is_open)
        assert server.admits(key)
        running.cancel()


async def test_a_key_revoked_elsewhere_is_refused_by_a_running_server(
    server: Server, store: KeyStore, database_url: str, peppers: Peppers, wait_until: WaitUntil
) -> None:
    await store.migrate()
    key, record = await store.create(NewKey(name="a"), peppers)
    kept, _ = await store.create(NewKey(name="b"), peppers)
    await server.watch.refresh()
    assert server.admits(key)
    elsewhere = KeyStore(database_url)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(server.watch.run())
        await elsewhere.revoke(record.kid)
        await wait_until(lambda: not server.admits(key))
        running.cancel()
    assert server.admits(kept)
    await elsewhere.close()


async def test_an_unchanged_store_is_not_read_again(
    server: Server, store: KeyStore, peppers: Peppers
) -> None:
    await store.migrate()
    await store.create(NewKey(name="a"), peppers)
    await server.watch.refresh()
    before = server.authenticator.snapshot
    await server.watch.refresh()
    assert server.authenticator.snapshot is before


async def test_keys_go_on_working_while_the_database_is_away(
    server: Server, store: KeyStore, database: Path, peppers: Peppers, wait_until: WaitUntil
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
    server: Server, store: KeyStore, database: Path, peppers: Peppers
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
    server: Server, store: KeyStore, database: Path, peppers: Peppers
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


async def test_keys_without_their_pepper_stop_the_start(
    store: KeyStore, database: Path, peppers: Peppers
) -> None:
    await store.migrate()
    key, _ = await store.create(NewKey(name="a"), peppers)
    server = Server(store, lambda: load_peppers(database.with_name("pepper")))
    with pytest.raises(PepperMissing):
        await server.watch.refresh()
    assert not server.authenticator.is_open
    assert not server.admits(key)
    # It is asked for again although the keys have not changed.
    database.with_name("pepper").touch(mode=0o600)
    database.with_name("pepper").write_text(peppers.dump())
    await server.watch.refresh()
    assert server.admits(key)


async def test_the_wrong_pepper_stops_the_start(store: KeyStore, peppers: Peppers) -> None:
    await store.migrate()
    key, _ = await store.create(NewKey(name="a"), peppers)
    server = Server(store, Peppers.generate)
    with pytest.raises(PepperMismatch):
        await server.watch.refresh()
    assert not server.admits(key)


async def test_an_old_pepper_is_needed_while_a_key_of_it_lives(
    store: KeyStore, clock: HandClock, peppers: Peppers
) -> None:
    await store.migrate()
    await store.create(NewKey(name="a", expires_at=int(clock.now) + 1), peppers)
    newer = Peppers.parse(Peppers.generate().dump().replace("1:", "2:", 1))
    await store.create(NewKey(name="b"), newer)
    snapshot = await store.snapshot()
    with pytest.raises(PepperMissing, match="pepper 1"):
        check_peppers(newer, snapshot, clock.now)
    check_peppers(newer, snapshot, clock.now + 1)


async def test_a_database_without_the_tables_stops_the_start(
    server: Server, database: Path
) -> None:
    database.parent.mkdir()
    database.touch()
    with pytest.raises(SchemaOutdated):
        await server.watch.refresh()


async def test_a_stopped_watch_finishes_the_refresh_under_way(
    server: Server, store: KeyStore, peppers: Peppers
) -> None:
    await store.migrate()
    key, _ = await store.create(NewKey(name="a"), peppers)
    refreshing = asyncio.Event()
    refresh = server.watch.refresh

    async def announced_refresh() -> None:
        refreshing.set()
        await refresh()

    server.watch.refresh = announced_refresh  # type: ignore[method-assign]
    running = asyncio.create_task(server.watch.run())
    await refreshing.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert server.admits(key)
