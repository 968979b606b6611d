"""How a running server learns of keys, and what it does when it cannot."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hand_clock import HandClock
from key_server import KeyServer
from raw_sql import execute

from auth.errors import PepperMismatch, PepperMissing, SchemaOutdated, StoreUnavailable
from auth.holder import Holder
from auth.nudge import LocalNudge
from auth.pepper import Peppers, create_peppers, load_peppers
from auth.record import Limits, NewKey
from auth.store import KeyStore
from auth.watch import check_peppers

WaitUntil = Callable[..., Awaitable[None]]


@pytest.fixture
def server(store: KeyStore, peppers: Peppers) -> KeyServer:
    return KeyServer(store, lambda: peppers)


async def test_a_database_without_keys_leaves_the_door_open(
    server: KeyServer, store: KeyStore
) -> None:
    await store.migrate()
    await server.watch.refresh()
    assert server.authenticator.is_open


async def test_the_first_key_closes_a_running_server_and_opens_it_to_its_holder(
    store: KeyStore, backend: str, tmp_path: Path, wait_until: WaitUntil
) -> None:
    pepper_file = tmp_path / "pepper"
    if backend == "postgresql":  # which nobody serves from before its tables are made
        await store.migrate()
    server = KeyServer(store, lambda: load_peppers(pepper_file))
    await server.watch.refresh()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(server.watch.run())
        await store.migrate()
        key, _ = await store.create(NewKey(name="a"), create_peppers(pepper_file))
        await wait_until(lambda: not server.authenticator.is_open)
        assert server.admits(key)
        running.cancel()


async def test_a_key_revoked_elsewhere_is_refused_by_a_running_server(
    server: KeyServer, store: KeyStore, database_url: str, peppers: Peppers, wait_until: WaitUntil
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
    server: KeyServer, store: KeyStore, peppers: Peppers
) -> None:
    await store.migrate()
    await store.create(NewKey(name="a"), peppers)
    await server.watch.refresh()
    before = server.authenticator.snapshot
    await server.watch.refresh()
    assert server.authenticator.snapshot is before


async def test_keys_without_their_pepper_stop_the_start(
    store: KeyStore, tmp_path: Path, peppers: Peppers
) -> None:
    await store.migrate()
    key, _ = await store.create(NewKey(name="a"), peppers)
    server = KeyServer(store, lambda: load_peppers(tmp_path / "pepper"))
    with pytest.raises(PepperMissing):
        await server.watch.refresh()
    assert not server.authenticator.is_open
    assert not server.admits(key)
    # It is asked for again although the keys have not changed.
    (tmp_path / "pepper").touch(mode=0o600)
    (tmp_path / "pepper").write_text(peppers.dump())
    await server.watch.refresh()
    assert server.admits(key)


async def test_while_a_pepper_is_missing_the_keys_are_not_read_again(
    store: KeyStore, peppers: Peppers, both_peppers: Peppers
) -> None:
    await store.migrate()
    await store.create(NewKey(name="a"), both_peppers)
    server = KeyServer(store, lambda: peppers)
    with pytest.raises(PepperMissing):
        await server.watch.refresh()
    (read,) = server.authenticator.snapshot.keys.values()
    with pytest.raises(PepperMissing):
        await server.watch.refresh()
    (again,) = server.authenticator.snapshot.keys.values()
    assert again is read


async def test_the_wrong_pepper_stops_the_start(store: KeyStore, peppers: Peppers) -> None:
    await store.migrate()
    key, _ = await store.create(NewKey(name="a"), peppers)
    server = KeyServer(store, Peppers.generate)
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
    server: KeyServer, backend: str, database: Path
) -> None:
    if backend == "sqlite":  # where without a file there is nothing to have tables
        database.parent.mkdir()
        database.touch()
    with pytest.raises(SchemaOutdated):
        await server.watch.refresh()


async def test_a_stopped_watch_finishes_the_refresh_under_way(
    server: KeyServer, store: KeyStore, peppers: Peppers
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


async def test_limits_of_a_key_and_of_its_project_arrive_together(
    server: KeyServer, store: KeyStore, peppers: Peppers
) -> None:
    await store.migrate()
    key, record = await store.create(NewKey(name="a", project="shop"), peppers)
    await server.watch.refresh()
    assert server.authenticator.authenticate(key).holders == ()
    await store.set_limits(record.kid, {"rpm": 60})
    await store.set_project_limits("shop", {"daily_tokens": 1_000})
    await server.watch.refresh()
    principal = server.authenticator.authenticate(key)
    assert principal.project == "shop"
    assert principal.holders == (
        Holder("key", record.kid, Limits(rpm=60)),
        Holder("project", "shop", Limits(daily_tokens=1_000)),
    )


async def test_a_nudge_that_comes_during_a_refresh_is_not_lost(
    store: KeyStore, peppers: Peppers, wait_until: WaitUntil
) -> None:
    await store.migrate()
    nudge = LocalNudge()
    server = KeyServer(store, lambda: peppers, nudge=nudge, poll_s=3600)
    refreshes: list[int] = []
    refresh = server.watch.refresh

    async def nudged_refresh() -> None:
        await refresh()
        if not refreshes:
            await nudge.send()
        refreshes.append(1)

    server.watch.refresh = nudged_refresh  # type: ignore[method-assign]
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(server.watch.run())
        await nudge.send()
        await wait_until(lambda: len(refreshes) == 2)
        running.cancel()


async def test_after_a_refresh_that_failed_only_what_has_changed_is_read(
    store: KeyStore, peppers: Peppers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.migrate()
    _, kept = await store.create(NewKey(name="kept"), peppers)
    _, limited = await store.create(NewKey(name="limited"), peppers)
    server = KeyServer(store, lambda: peppers)
    await server.watch.refresh()
    before = server.authenticator.snapshot.keys

    async def locked() -> int:
        raise StoreUnavailable("the database is locked")

    with monkeypatch.context() as patched:
        patched.setattr(store, "revision", locked)
        with pytest.raises(StoreUnavailable):
            await server.watch.refresh()
    await store.set_limits(limited.kid, {"rpm": 5})
    await server.watch.refresh()
    after = server.authenticator.snapshot.keys
    assert after[kept.kid] is before[kept.kid]
    assert after[limited.kid].limits == Limits(rpm=5)


async def test_a_copy_that_has_gone_on_from_an_earlier_time_is_read_whole(
    store: KeyStore, database_url: str, peppers: Peppers
) -> None:
    await store.migrate()
    key, record = await store.create(NewKey(name="a"), peppers)
    server = KeyServer(store, lambda: peppers)
    await server.watch.refresh()
    await store.revoke(record.kid)
    await server.watch.refresh()
    assert not server.admits(key)
    # A replica that had not heard of the revocation, and of which other keys were made since.
    await execute(database_url, "UPDATE keys SET revoked_at = NULL, revision = 1")
    await execute(database_url, "DELETE FROM audit WHERE action = 'revoke'")
    await execute(database_url, "UPDATE key_revision SET revision = 1")
    for name in ("b", "c"):
        await store.create(NewKey(name=name), peppers)
    await server.watch.refresh()
    assert server.admits(key)
    assert len(server.authenticator.snapshot.keys) == 3
