"""The schema, from nothing and from elsewhere."""

import asyncio
import logging
import sys
import time

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from raw_sql import execute
from sqlalchemy import Connection, inspect
from sqlalchemy.ext.asyncio import create_async_engine

import auth.migrate
from auth.authenticator import Authenticator
from auth.errors import SchemaNewer, SchemaOutdated
from auth.key import generate_key
from auth.migrate import HEAD, SCRIPTS
from auth.pepper import Peppers
from auth.record import Limits, NewKey, Rotation
from auth.schema import metadata
from auth.store import KeyStore

KEY_COLUMNS = {
    *("kid", "digest", "pv", "name", "owner", "project", "env", "scopes", "models", "lane"),
    *("rpm", "tpm", "max_concurrency", "burst_s", "daily_tokens", "monthly_tokens"),
    *("created_at", "expires_at", "revoked_at", "last_used_at", "replaces", "revision"),
}


async def revision_of(url: str) -> list[tuple[object, ...]]:
    return await execute(url, "SELECT version_num FROM alembic_version")


async def stamp(url: str, revision: str) -> None:
    await execute(url, "UPDATE alembic_version SET version_num = :revision", revision=revision)


def test_head_is_the_newest_revision() -> None:
    scripts = ScriptDirectory.from_config(
        Config(config_args={"script_location": str(SCRIPTS), "path_separator": "os"})
    )
    revisions = [script.revision for script in scripts.walk_revisions()]
    assert scripts.get_heads() == [HEAD] == revisions[:1]
    assert revisions == sorted(revisions, reverse=True)
    assert all(len(revision) == len(HEAD) for revision in revisions)


async def test_a_migrated_database_has_the_tables_the_program_uses(
    store: KeyStore, database_url: str
) -> None:
    await store.migrate()

    def differences(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))

    def columns(connection: Connection) -> set[str]:
        return {column["name"] for column in inspect(connection).get_columns("keys")}

    engine = create_async_engine(database_url)
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []
        assert await connection.run_sync(columns) == KEY_COLUMNS
    await engine.dispose()


async def test_migrating_again_changes_nothing(store: KeyStore, peppers: Peppers) -> None:
    await store.migrate()
    await store.create(NewKey(name="a"), peppers)
    before = await store.snapshot()
    await store.migrate()
    await store.check_schema()
    assert await store.snapshot() == before


async def test_processes_that_migrate_at_once_leave_one_database(
    store: KeyStore, database_url: str
) -> None:
    program = (
        f"import asyncio, auth.store as s; asyncio.run(s.KeyStore({database_url!r}).migrate())"
    )
    racers = [await asyncio.create_subprocess_exec(sys.executable, "-c", program) for _ in range(3)]
    assert [await racer.wait() for racer in racers] == [0, 0, 0]
    await store.check_schema()
    assert await store.count() == 0


async def test_an_older_database_is_outdated(store: KeyStore, database_url: str) -> None:
    await store.migrate()
    await stamp(database_url, "0001")
    with pytest.raises(SchemaOutdated, match=r"revision 0001.*florilege db upgrade"):
        await store.check_schema()
    with pytest.raises(SchemaOutdated):
        await store.prepare()
    assert await revision_of(database_url) == [("0001",)]


async def test_a_newer_database_is_neither_served_nor_migrated(
    store: KeyStore, database_url: str
) -> None:
    await store.migrate()
    await stamp(database_url, "9999")
    with pytest.raises(SchemaNewer, match="revision 9999"):
        await store.check_schema()
    with pytest.raises(SchemaNewer):
        await store.migrate()
    with pytest.raises(SchemaNewer):
        await store.prepare()
    assert await revision_of(database_url) == [("9999",)]


async def test_preparing_makes_the_tables_where_there_are_none(store: KeyStore) -> None:
    await store.prepare()
    await store.check_schema()
    await store.prepare()
    assert await store.count() == 0


async def test_a_database_of_the_first_revision_keeps_its_keys(
    store: KeyStore, database_url: str, peppers: Peppers
) -> None:
    await make_first_revision(database_url)
    key, kid = generate_key()
    await execute(
        database_url,
        "INSERT INTO peppers VALUES (1, :fingerprint, 1)",
        fingerprint=peppers.fingerprint(1),
    )
    await execute(database_url, "INSERT INTO projects (name, rpm, created_at) VALUES ('p', 60, 1)")
    await execute(
        database_url,
        "INSERT INTO keys (kid, digest, pv, name, project, env, scopes, tpm, created_at, revision)"
        " VALUES (:kid, :digest, 1, 'old', 'p', 'live', '[\"embed\"]', 9, 1, 1)",
        kid=kid,
        digest=peppers.digest(key, 1),
    )
    await execute(database_url, "UPDATE key_revision SET revision = 1")
    with pytest.raises(SchemaOutdated):
        await store.check_schema()

    started = time.perf_counter()
    await store.migrate()
    print(f"\nmigrated in {(time.perf_counter() - started) * 1000:.0f} ms")

    await store.check_schema()
    snapshot = await store.snapshot()
    assert snapshot.revision == 1
    assert snapshot.projects == {"p": Limits(rpm=60)}
    record = snapshot.keys[kid]
    assert (record.name, record.scopes, record.limits) == ("old", {"embed"}, Limits(tpm=9))
    assert record.replaces is None
    authenticator = Authenticator()
    authenticator.replace(snapshot, peppers)
    assert authenticator.authenticate(key).kid == kid
    assert (await store.rotate(kid, peppers, Rotation(60)))[1].replaces == kid


async def make_first_revision(url: str) -> None:
    """As the first release left it."""
    store = KeyStore(url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auth.migrate, "HEAD", "0001")
        await store.migrate()
    await store.close()
    assert await revision_of(url) == [("0001",)]


async def test_migrating_is_silent(store: KeyStore, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        await store.migrate()
    assert [r for r in caplog.records if r.name.startswith("alembic")] == []
