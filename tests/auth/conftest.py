"""A store in a directory of its own, a clock that is set by hand, and peppers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hand_clock import HandClock

from auth.database import sqlite_url
from auth.pepper import Peppers
from auth.store import KeyStore


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(scope="session")
def peppers() -> Peppers:
    return Peppers.generate()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where the database will be; neither it nor its directory exist."""
    return tmp_path / "data" / "florilege.db"


@pytest.fixture
def database_url(database: Path) -> str:
    return sqlite_url(database)


@pytest.fixture
async def store(database_url: str, clock: HandClock) -> AsyncIterator[KeyStore]:
    """A store whose database does not exist yet."""
    store = KeyStore(database_url, now=clock)
    yield store
    await store.close()
