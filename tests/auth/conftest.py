"""A store in a database of its own, a clock that is set by hand, and peppers."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hand_clock import HandClock
from postgres_server import PostgresServer, running_postgres

from auth.database import sqlite_url
from auth.pepper import Peppers
from auth.store import KeyStore


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(scope="session")
def peppers() -> Peppers:
    return Peppers.generate()


@pytest.fixture(scope="session")
def newer_peppers(peppers: Peppers) -> Peppers:
    """A second version alone: what an operator adds, and in the end keeps."""
    return Peppers.parse(Peppers.generate().dump().replace("1:", "2:", 1))


@pytest.fixture(scope="session")
def both_peppers(peppers: Peppers, newer_peppers: Peppers) -> Peppers:
    return Peppers.parse(peppers.dump() + newer_peppers.dump())


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Started by the first test that asks for it."""
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def backend(request: pytest.FixtureRequest) -> str:
    """A module that is about one of them overrides this."""
    name: str = request.param
    return name


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where the SQLite file will be; neither it nor its directory exist."""
    return tmp_path / "data" / "florilege.db"


@pytest.fixture
def database_url(request: pytest.FixtureRequest, backend: str, database: Path) -> Iterator[str]:
    """Of a database without tables; an SQLite file does not even exist."""
    if backend == "sqlite":
        yield sqlite_url(database)
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.make_database()
    yield url
    server.drop_database(url)


@pytest.fixture
async def store(database_url: str, clock: HandClock) -> AsyncIterator[KeyStore]:
    store = KeyStore(database_url, now=clock)
    yield store
    await store.close()
