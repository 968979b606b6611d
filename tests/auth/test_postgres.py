"""The store on PostgreSQL: how it is named, and what becomes of its failures."""

import asyncio
import sys
import time

import pytest
from postgres_server import PostgresServer, database_of
from raw_sql import execute

from auth.errors import SchemaOutdated, StoreUnavailable
from auth.pepper import Peppers
from auth.record import NewKey
from auth.store import KeyStore


@pytest.fixture
def backend() -> str:
    return "postgresql"


@pytest.fixture
async def filled(store: KeyStore, peppers: Peppers) -> KeyStore:
    await store.migrate()
    await store.create(NewKey(name="a"), peppers)
    return store


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg"])
async def test_a_database_goes_by_each_of_its_usual_names(
    filled: KeyStore, database_url: str, scheme: str
) -> None:
    store = KeyStore(database_url.replace("postgresql+asyncpg", scheme))
    assert await store.count() == 1
    await store.close()


@pytest.mark.parametrize("option", ["sslmode=disable", "ssl=prefer"])
async def test_tls_is_asked_for_as_elsewhere(
    filled: KeyStore, database_url: str, option: str
) -> None:
    store = KeyStore(f"{database_url}&{option}")
    assert await store.count() == 1
    await store.close()


async def test_tls_that_the_server_does_not_have_is_not_done_without(
    filled: KeyStore, database_url: str, postgres: PostgresServer
) -> None:
    store = KeyStore(f"{database_url}&sslmode=verify-full")
    with pytest.raises(StoreUnavailable):
        await store.count()
    await store.close()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("/test_", "/absent_", "does not exist"),
        ("postgres@", "nobody:hunter2@", "nobody"),
        ("?host=", "?colour=red&host=", "colour"),
        ("?host=", "?sslmode=maybe&host=", "sslmode"),
        ("?host=", "?host=/nowhere", "No such file"),
    ],
)
async def test_a_database_that_cannot_be_reached_says_why_without_the_password(
    filled: KeyStore, database_url: str, old: str, new: str, reason: str
) -> None:
    assert old in database_url
    store = KeyStore(database_url.replace(old, new))
    with pytest.raises(StoreUnavailable, match=reason) as raised:
        await store.count()
    assert "hunter2" not in str(raised.value)
    await store.close()


def test_other_databases_are_refused() -> None:
    with pytest.raises(StoreUnavailable, match="SQLite or PostgreSQL"):
        KeyStore("mysql://root@localhost/keys")


async def test_a_row_that_is_refused_is_not_told(filled: KeyStore) -> None:
    [record] = await filled.list()
    with pytest.raises(StoreUnavailable) as raised:
        async with filled._database.write() as connection:
            await connection.exec_driver_sql("UPDATE keys SET name = NULL")
    assert "null value" in str(raised.value)
    assert record.kid not in str(raised.value)


async def test_an_empty_database_is_not_served(store: KeyStore) -> None:
    with pytest.raises(SchemaOutdated, match="florilege db upgrade"):
        await store.check_schema()


async def test_a_migration_that_fails_is_undone(store: KeyStore, database_url: str) -> None:
    await execute(database_url, "CREATE TABLE audit (mine INTEGER)")
    with pytest.raises(StoreUnavailable, match="already exists"):
        await store.migrate()
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    assert await execute(database_url, tables) == [("audit",)]


async def test_a_server_that_was_restarted_is_asked_again(
    filled: KeyStore, postgres: PostgresServer
) -> None:
    postgres.stop()
    with pytest.raises(StoreUnavailable):
        await filled.count()
    postgres.start()
    assert await filled.count() == 1


async def test_a_writer_waits_for_another_and_comes_after_it(
    filled: KeyStore, database_url: str, peppers: Peppers
) -> None:
    """Or a reader could see the later revision, and never look for the earlier one again."""
    other = KeyStore(database_url)
    async with filled._database.write() as connection:
        await connection.exec_driver_sql("UPDATE key_revision SET revision = revision + 1")
        second = asyncio.create_task(other.create(NewKey(name="b"), peppers))
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while await execute(database_url, waiting) != [(1,)]:
            assert not second.done()
        assert await filled.revision() == 1
    await second
    assert await filled.revision() == 3
    await other.close()


async def test_processes_that_write_at_once_lose_nothing(
    filled: KeyStore, database_url: str, postgres: PostgresServer, peppers: Peppers
) -> None:
    program = f"""
import asyncio
from auth.pepper import Peppers
from auth.record import NewKey
from auth.store import KeyStore

async def main():
    store = KeyStore({database_url!r})
    for number in range(20):
        await store.create(NewKey(name=str(number)), Peppers.parse({peppers.dump()!r}))
    await store.close()

asyncio.run(main())
"""
    started = time.perf_counter()
    writers = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", program) for _ in range(2)
    ]
    assert [await writer.wait() for writer in writers] == [0, 0]
    print(f"\n40 keys by 2 processes in {time.perf_counter() - started:.1f} s")
    assert await filled.revision() == await filled.count() == 41
    revisions = postgres.call("SELECT revision FROM keys", database=database_of(database_url))
    assert sorted(map(int, revisions)) == list(range(1, 42))
