"""The store of keys, on a real SQLite file."""

import asyncio
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
from hand_clock import HandClock

from auth.database import sqlite_url
from auth.errors import KeyRefused, PepperMismatch, StoreUnavailable, UnknownKey
from auth.key import parse_key
from auth.pepper import Peppers
from auth.record import Limits, NewKey
from auth.snapshot import EMPTY
from auth.store import KeyStore

FULL = NewKey(
    name="search",
    owner="ada@example.org",
    project="shop",
    env="test",
    scopes=frozenset({"embed", "admin"}),
    models=frozenset({"b", "a"}),
    lane="bulk",
    limits=Limits(
        rpm=60, tpm=2**40, max_concurrency=4, burst_s=1.5, daily_tokens=1, monthly_tokens=2**50
    ),
    expires_at=1_900_000_000,
)


async def test_looking_leaves_nothing_behind(store: KeyStore, database: Path) -> None:
    await store.check_schema()
    assert not store.exists()
    assert await store.count() == 0
    assert await store.list() == []
    assert await store.revision() == 0
    assert await store.snapshot() == EMPTY
    with pytest.raises(UnknownKey):
        await store.revoke("0123456789ab")
    assert not database.parent.exists()


async def test_making_a_key_takes_a_migrated_database(
    store: KeyStore, database: Path, peppers: Peppers
) -> None:
    with pytest.raises(StoreUnavailable, match="unable to open database file"):
        await store.create(NewKey(name="a"), peppers)
    assert not database.parent.exists()


async def test_the_file_and_its_directory_are_private(store: KeyStore, database: Path) -> None:
    await store.migrate()
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    assert stat.S_IMODE(database.parent.stat().st_mode) == 0o700
    assert list(database.parent.iterdir()) == [database]


async def test_a_key_comes_back_as_it_was_made(
    store: KeyStore, clock: HandClock, peppers: Peppers
) -> None:
    await store.migrate()
    key, record = await store.create(FULL, peppers)
    assert {name: getattr(record, name) for name in vars(FULL)} == vars(FULL)
    assert parse_key(key).kid == record.kid
    assert parse_key(key).env == "test"
    assert record.digest == peppers.digest(key, record.pv)
    assert (record.created_at, record.revoked_at, record.last_used_at) == (clock.now, None, None)
    assert await store.list() == [record]
    assert (await store.snapshot()).keys == {record.kid: record}


async def test_a_key_made_by_name_alone_may_embed_and_rerank_without_limits(
    store: KeyStore, peppers: Peppers
) -> None:
    await store.migrate()
    _, made = await store.create(NewKey(name="a"), peppers)
    [record] = await store.list()
    assert record == made
    assert record.scopes == {"embed", "rerank"}
    assert record.limits == Limits()
    assert (record.env, record.models, record.lane, record.expires_at) == ("live", None, None, None)


async def test_neither_the_key_nor_its_secret_is_in_the_files(
    store: KeyStore, database: Path, peppers: Peppers
) -> None:
    await store.migrate()
    key, _ = await store.create(FULL, peppers)
    files = b"".join(path.read_bytes() for path in database.parent.iterdir())
    assert key.rpartition("-")[2].encode() not in files
    assert b"ada@example.org" in files


@pytest.mark.parametrize(
    "refused",
    [
        NewKey(name=" "),
        NewKey(name="a", env="Live"),
        NewKey(name="a", scopes=frozenset()),
        NewKey(name="a", scopes=frozenset({"embed", "root"})),
        NewKey(name="a", models=frozenset()),
        NewKey(name="a", lane="fast"),  # type: ignore[arg-type]
        NewKey(name="a", limits=Limits(rpm=0)),
        NewKey(name="a", limits=Limits(burst_s=-1.0)),
    ],
)
async def test_a_key_outside_its_range_is_not_made(
    store: KeyStore, peppers: Peppers, refused: NewKey
) -> None:
    await store.migrate()
    with pytest.raises(KeyRefused):
        await store.create(refused, peppers)
    assert await store.count() == 0


async def test_every_write_raises_the_revision(store: KeyStore, peppers: Peppers) -> None:
    await store.migrate()
    seen = [await store.revision()]
    _, record = await store.create(NewKey(name="a"), peppers)
    seen.append(await store.revision())
    await store.revoke(record.kid)
    seen.append(await store.revision())
    assert seen == [0, 1, 2]
    assert (await store.snapshot()).revision == 2


async def test_of_a_known_snapshot_only_the_changed_keys_are_read(
    store: KeyStore, peppers: Peppers
) -> None:
    await store.migrate()
    _, kept = await store.create(NewKey(name="kept"), peppers)
    _, revoked = await store.create(NewKey(name="revoked"), peppers)
    known = await store.snapshot()
    await store.revoke(revoked.kid)
    _, added = await store.create(NewKey(name="added"), peppers)
    snapshot = await store.snapshot(known)
    assert snapshot == await store.snapshot()
    assert snapshot.keys.keys() == {kept.kid, revoked.kid, added.kid}
    assert snapshot.keys[kept.kid] is known.keys[kept.kid]
    assert snapshot.keys[revoked.kid].revoked_at is not None
    assert known.keys[revoked.kid].revoked_at is None


async def test_a_database_put_back_from_a_backup_is_read_whole(
    store: KeyStore, database: Path, tmp_path: Path, peppers: Peppers
) -> None:
    await store.migrate()
    _, kept = await store.create(NewKey(name="kept"), peppers)
    backup = tmp_path / "backup.db"
    backup.write_bytes(database.read_bytes())
    await store.create(NewKey(name="lost"), peppers)
    known = await store.snapshot()
    backup.replace(database)
    assert (await store.snapshot(known)).keys == {kept.kid: kept}


async def test_a_revoked_key_keeps_its_row_and_its_first_time(
    store: KeyStore, clock: HandClock, peppers: Peppers
) -> None:
    await store.migrate()
    _, record = await store.create(NewKey(name="a"), peppers)
    first = await store.revoke(record.kid)
    clock.now += 60
    assert await store.revoke(record.kid) == first
    assert first.revoked_at == clock.now - 60
    assert not first.active(clock.now)
    assert await store.count() == 1


async def test_revoking_what_is_not_there_changes_nothing(store: KeyStore) -> None:
    await store.migrate()
    with pytest.raises(UnknownKey):
        await store.revoke("0123456789ab")
    assert await store.revision() == 0


async def test_another_pepper_of_the_same_version_makes_no_keys(
    store: KeyStore, peppers: Peppers
) -> None:
    await store.migrate()
    await store.create(NewKey(name="a"), peppers)
    with pytest.raises(PepperMismatch):
        await store.create(NewKey(name="b"), Peppers.generate())
    assert [record.name for record in await store.list()] == ["a"]
    assert await store.revision() == 1


async def test_two_keys_of_a_project_share_its_row(
    store: KeyStore, database: Path, peppers: Peppers
) -> None:
    await store.migrate()
    await store.create(NewKey(name="a", project="shop"), peppers)
    await store.create(NewKey(name="b", project="shop"), peppers)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT name, rpm FROM projects").fetchall() == [("shop", None)]


async def test_two_stores_on_one_file_lose_no_write(
    store: KeyStore, database_url: str, peppers: Peppers
) -> None:
    await store.migrate()
    other = KeyStore(database_url)
    await asyncio.gather(
        *(s.create(NewKey(name=str(n)), peppers) for n in range(8) for s in (store, other))
    )
    assert await store.count() == await other.count() == 16
    assert await store.revision() == 16
    assert await other.snapshot() == await store.snapshot()
    await other.close()


async def test_reading_goes_on_while_another_process_writes(
    store: KeyStore, database: Path, peppers: Peppers
) -> None:
    await store.migrate()
    await store.create(NewKey(name="a"), peppers)
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE keys SET name = 'changed'")
        assert [r.name for r in await store.list()] == ["a"]
        writer.execute("COMMIT")
    assert [r.name for r in await store.list()] == ["changed"]


async def test_a_replaced_file_is_read_at_once(
    store: KeyStore, database: Path, tmp_path: Path, peppers: Peppers
) -> None:
    await store.migrate()
    backup = tmp_path / "backup.db"
    backup.write_bytes(database.read_bytes())
    await store.create(NewKey(name="a"), peppers)
    assert await store.count() == 1
    backup.replace(database)
    assert await store.count() == 0


async def test_a_file_that_is_no_database_is_an_error(store: KeyStore, database: Path) -> None:
    database.parent.mkdir()
    database.write_text("not a database, and long enough to be read as one" * 100)
    with pytest.raises(StoreUnavailable, match="file is not a database"):
        await store.count()


async def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = KeyStore(f"sqlite+aiosqlite:///{tmp_path}/file/florilege.db")
    with pytest.raises(StoreUnavailable):
        await store.migrate()


@pytest.mark.parametrize(
    "url",
    ["", "nonsense", "sqlite://", "sqlite+aiosqlite:///:memory:", "oops://u:hunter2@h/d"],
)
def test_a_url_that_cannot_be_used_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(StoreUnavailable) as raised:
        KeyStore(url)
    assert "hunter2" not in str(raised.value)


async def test_a_path_may_hold_any_character(tmp_path: Path) -> None:
    database = tmp_path / "a b#c%20&é?x=1@:" / "florilege.db"
    store = KeyStore(sqlite_url(database))
    await store.migrate()
    assert database.exists()
    assert await store.count() == 0


def test_a_failed_connection_leaves_no_thread_behind(
    database_url: str, capsys: pytest.CaptureFixture[str], peppers: Peppers
) -> None:
    before = set(threading.enumerate())
    for _ in range(10):
        with pytest.raises(StoreUnavailable):
            asyncio.run(KeyStore(database_url).create(NewKey(name="a"), peppers))
        assert set(threading.enumerate()) <= before
    assert capsys.readouterr().err == ""
