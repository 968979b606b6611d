"""The schema, from nothing and from elsewhere."""

import asyncio
import logging
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from auth.errors import SchemaNewer, SchemaOutdated, StoreUnavailable
from auth.migrate import HEAD, SCRIPTS
from auth.pepper import Peppers
from auth.record import NewKey
from auth.schema import metadata
from auth.store import KeyStore

KEY_COLUMNS = {
    *("kid", "digest", "pv", "name", "owner", "project", "env", "scopes", "models", "lane"),
    *("rpm", "tpm", "max_concurrency", "burst_s", "daily_tokens", "monthly_tokens"),
    *("created_at", "expires_at", "revoked_at", "last_used_at", "replaces", "revision"),
}


def execute(database: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


def test_head_is_the_newest_revision() -> None:
    scripts = ScriptDirectory.from_config(
        Config(config_args={"script_location": str(SCRIPTS), "path_separator": "os"})
    )
    revisions = [script.revision for script in scripts.walk_revisions()]
    assert scripts.get_heads() == [HEAD] == revisions[:1]
    assert revisions == sorted(revisions, reverse=True)
    assert all(len(revision) == len(HEAD) for revision in revisions)


async def test_a_migrated_database_has_the_tables_the_program_uses(
    store: KeyStore, database: Path
) -> None:
    await store.migrate()
    engine = create_engine(f"sqlite:///{database}")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()
    assert {row[1] for row in execute(database, "PRAGMA table_info(keys)")} == KEY_COLUMNS
    assert execute(database, "PRAGMA journal_mode") == [("wal",)]


async def test_migrating_again_changes_nothing(
    store: KeyStore, database: Path, peppers: Peppers
) -> None:
    await store.migrate()
    await store.create(NewKey(name="a"), peppers)
    before = await store.snapshot()
    await store.migrate()
    await store.check_schema()
    assert await store.snapshot() == before


async def test_processes_that_migrate_at_once_leave_one_database(
    store: KeyStore, database: Path, database_url: str
) -> None:
    program = (
        f"import asyncio, auth.store as s; asyncio.run(s.KeyStore({database_url!r}).migrate())"
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


async def test_an_older_database_is_outdated(store: KeyStore, database: Path) -> None:
    await store.migrate()
    execute(database, "UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(SchemaOutdated, match="revision 0000"):
        await store.check_schema()


async def test_a_newer_database_is_neither_served_nor_migrated(
    store: KeyStore, database: Path
) -> None:
    await store.migrate()
    execute(database, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaNewer, match="revision 9999"):
        await store.check_schema()
    with pytest.raises(SchemaNewer):
        await store.migrate()
    assert execute(database, "SELECT version_num FROM alembic_version") == [("9999",)]


async def test_a_migration_that_fails_is_undone(store: KeyStore, database: Path) -> None:
    database.parent.mkdir()
    execute(database, "CREATE TABLE keys (mine)")
    with pytest.raises(StoreUnavailable, match="already exists"):
        await store.migrate()
    assert execute(database, "SELECT name FROM sqlite_master") == [("keys",)]


async def test_migrating_is_silent(store: KeyStore, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        await store.migrate()
    assert [r for r in caplog.records if r.name.startswith("alembic")] == []
