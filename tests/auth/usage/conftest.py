"""A store of usage, on a database that has its tables."""

from collections.abc import AsyncIterator

import pytest

from auth.store import KeyStore
from auth.usage.store import UsageStore


@pytest.fixture
async def usage(store: KeyStore, database_url: str) -> AsyncIterator[UsageStore]:
    await store.migrate()
    usage = UsageStore(database_url)
    yield usage
    await usage.close()
