"""The store on an SQLite file: what becomes of the file."""

import asyncio
import sqlite3
import stat
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from raw_sql import execute

from auth.database import sqlite_url
from auth.errors import SchemaOutdated, StoreUnavailable, UnknownKey, UnknownProject
from auth.pepper import Peppers
from auth.record import NewKey, Rotation
from auth.snapshot import EMPTY
from auth.store import KeyStore


@pytest.fixture
def backend() -> str:
    return "sqlite"


async def test_looking_leaves_nothing_behind(
    store: KeyStore, database: Path, peppers: Peppers
) -> None:
    await store.check_schema()
    assert not store.exists()
    assert await store.count() == 0
    assert await store.list() == []
    assert await store.revision() == 0
    assert await store.snapshot() == EMPTY
    with pytest.raises(UnknownKey):
        await store.revoke("0123456789ab")
    with pytest.raises(UnknownKey):
        await store.rotate("0123456789ab", peppers, Rotation(0))
    with pytest.raises(UnknownKey):
        await store.set_limits("0123456789ab", {"rpm": 1})
    with pytest.raises(UnknownKey):
        await store.get("0123456789ab")
    with pytest.raises(UnknownProject):
        await store.set_project_limits("shop", {"rpm": 1})
    assert await store.projects() == {}
    assert await store.audit_log() == []
    await store.touch({"0123456789ab": 1})
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


async def test_neither_the_key_nor_its_secret_is_in_the_files(
    store: KeyStore, database: Path, peppers: Peppers
) -> None:
    await store.migrate()
    key, _ = await store.create(NewKey(name="a", owner="ada@example.org"), peppers)
    files = b"".join(path.read_bytes() for path in database.parent.iterdir())
    assert key.rpartition("-")[2].encode() not in files
    assert b"ada@example.org" in files


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


async def test_readers_go_on_while_one_writes_as_the_file_says(
    store: KeyStore, database_url: str
) -> None:
    await store.migrate()
    assert await execute(database_url, "PRAGMA journal_mode") == [("wal",)]


async def test_processes_that_make_the_file_at_once_leave_nothing_else(
    store: KeyStore, database: Path, database_url: str
) -> None:
    program = (
        f"import asyncio, auth.store as s; asyncio.run(s.KeyStore({database_url!r}).prepare())"
    )
    racers = [await asyncio.create_subprocess_exec(sys.executable, "-c", program) for _ in range(3)]
    assert [await racer.wait() for racer in racers] == [0, 0, 0]
    await store.check_schema()
    assert [path for path in database.parent.iterdir() if path.is_dir()] == []


async def test_an_empty_file_is_outdated_until_migrated(store: KeyStore, database: Path) -> None:
    database.parent.mkdir()
    database.touch()
    with pytest.raises(SchemaOutdated, match="revision None"):
        await store.check_schema()
    await store.migrate()
    await store.check_schema()


async def test_a_migration_that_fails_is_undone(
    store: KeyStore, database: Path, database_url: str
) -> None:
    database.parent.mkdir()
    await execute(database_url, "CREATE TABLE keys (mine INTEGER)")
    with pytest.raises(StoreUnavailable, match="already exists"):
        await store.migrate()
    assert await execute(database_url, "SELECT name FROM sqlite_master") == [("keys",)]
