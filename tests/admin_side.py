"""The admin port's app over a real store of keys, with an administrator's client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from api.admin.administration import Administration
from api.admin.app import create_admin_app
from auth.authenticator import Authenticator
from auth.database import sqlite_url
from auth.pepper import Peppers
from auth.principal import Principal
from auth.record import NewKey
from auth.store import KeyStore
from auth.usage.store import UsageStore
from auth.watch import KeyWatch
from observability.admin import AdminApp
from observability.health import Health
from observability.metrics import Metrics


class AdminSide:
    """`client` speaks to the port as the administrator; `stranger` presents no key."""

    def __init__(self, directory: Path) -> None:
        self.database = directory / "data" / "florilege.db"
        url = sqlite_url(self.database)
        self.peppers: Peppers | None = Peppers.generate()
        self.keys = KeyStore(url)
        self.usage = UsageStore(url)
        self.authenticator = Authenticator()
        self.watch = KeyWatch(self.authenticator, self.keys, self.read_peppers)
        self.metrics = Metrics()
        self.changes = 0
        self.callers: list[Principal] = []
        administration = Administration(
            self.keys, self.usage, self.read_peppers, self.changed, self.callers.append
        )
        self.app = create_admin_app(administration, self.authenticator, self.metrics, "0")
        self.port = AdminApp(Health(), self.metrics, self.app)
        self.stranger = self.client_of(None)
        self.client = self.stranger
        self.kid = ""

    async def start(self) -> None:
        await self.keys.migrate()
        key, record = await self.keys.create(
            NewKey(name="root", scopes=frozenset({"admin"})), self.read_peppers()
        )
        await self.watch.refresh()
        self.client, self.kid = self.client_of(key), record.kid

    async def stop(self) -> None:
        await self.client.aclose()
        await self.stranger.aclose()
        await self.usage.close()
        await self.keys.close()

    def client_of(self, key: str | None) -> httpx.AsyncClient:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        transport = httpx.ASGITransport(self.port, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://admin", headers=headers)

    def read_peppers(self) -> Peppers:
        assert self.peppers is not None
        return self.peppers

    async def changed(self) -> None:
        self.changes += 1
        await self.watch.refresh()

    async def create(self, **body: Any) -> dict[str, Any]:
        response = await self.client.post("/v1/admin/keys", json={"name": "a"} | body)
        assert response.status_code == 200, response.text
        made: dict[str, Any] = response.json()
        return made


@asynccontextmanager
async def running_admin(directory: Path) -> AsyncIterator[AdminSide]:
    side = AdminSide(directory)
    await side.start()
    try:
        yield side
    finally:
        await side.stop()
