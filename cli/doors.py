"""The two ports of a process that answers HTTP, and who may come in."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from auth.authenticator import Authenticator
from cli.exposure import refuse_exposure
from cli.http_server import HttpServer
from cli.settings import Settings
from cli.wiring import Observers, build_keys
from observability.admin import AdminApp


@dataclass(frozen=True, eq=False)
class Doors:
    public: HttpServer  # bound, not yet listening
    admin: HttpServer  # answering
    authenticator: Authenticator


@asynccontextmanager
async def open_doors(settings: Settings, observers: Observers) -> AsyncIterator[Doors]:
    """Both ports held and the keys watched; closed at the end.

    Raises PortTaken, Exposed and AuthError.
    """
    authenticator, watch, store = build_keys(settings)
    public = HttpServer(settings.host, settings.port, settings.drain_s)
    admin = HttpServer(settings.admin_host, settings.admin_port, drain_s=1.0)
    watching = None
    try:
        await admin.start(AdminApp(observers.health, observers.metrics))
        if not settings.no_auth:
            await watch.refresh()
            watching = asyncio.create_task(watch.run())
        refuse_exposure(settings, authenticator)
        yield Doors(public, admin, authenticator)
    finally:
        if watching is not None:
            watching.cancel()
        await store.close()
        await admin.stop()
        public.close()
