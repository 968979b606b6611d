"""Keys in a database, made beside the servers that know it, and what is written there of them."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from auth.database import sqlite_url
from auth.pepper import Peppers, create_peppers
from auth.record import KeyRecord, Limits, NewKey
from auth.store import KeyStore
from auth.usage.query import UsageQuery
from auth.usage.store import UsageStore

Result = TypeVar("Result")


class Made(NamedTuple):
    key: str
    record: KeyRecord

    @property
    def kid(self) -> str:
        return self.record.kid


class Used(NamedTuple):
    requests: int
    tokens: int


class KeyRing:
    """As `florilege keys` works, without a process for each key."""

    def __init__(self, data_dir: Path, database_url: str | None = None) -> None:
        """`database_url`: default the file of the data directory."""
        self.url = database_url or sqlite_url(data_dir / "florilege.db")
        self.peppers: Peppers = create_peppers(data_dir / "pepper")

    def make(self, name: str, **limits: Any) -> Made:
        return self.make_key(NewKey(name=name, limits=Limits(**limits)))

    def make_key(self, new: NewKey, now: Callable[[], float] = time.time) -> Made:
        async def make(store: KeyStore) -> Made:
            await store.prepare()
            return Made(*await store.create(new, self.peppers))

        return self._run(make, now)

    def make_expired(self, name: str) -> Made:
        """An hour ago, for most of it."""
        new = NewKey(name=name, expires_at=int(time.time()) - 1)
        return self.make_key(new, now=lambda: time.time() - 3_600)

    def revoke(self, made: Made) -> None:
        self._run(lambda store: store.revoke(made.kid))

    def used(self) -> dict[str, Used]:
        """What the gateways have written so far, by key id."""

        async def read() -> dict[str, Used]:
            store = UsageStore(self.url)
            try:
                totals = await store.totals(UsageQuery(by=("key",)))
            finally:
                await store.close()
            return {total.key: Used(total.requests, total.tokens) for total in totals}

        return asyncio.run(read())

    def _run(
        self,
        use: Callable[[KeyStore], Awaitable[Result]],
        now: Callable[[], float] = time.time,
    ) -> Result:
        async def work() -> Result:
            store = KeyStore(self.url, now=now)
            try:
                return await use(store)
            finally:
                await store.close()

        return asyncio.run(work())
