"""The two ports of a process that answers HTTP, and who may come in."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from auth.limits.failover import FailoverLimits
from cli.exposure import refuse_exposure
from cli.http_server import HttpServer
from cli.settings import Settings
from cli.wiring import Access, Observers, build_access
from observability.admin import AdminApp


@dataclass(frozen=True, eq=False)
class Doors:
    public: HttpServer  # bound, not yet listening
    admin: HttpServer  # answering
    access: Access


@asynccontextmanager
async def open_doors(
    settings: Settings, observers: Observers, stop: asyncio.Event, *, shared: bool
) -> AsyncIterator[Doors]:
    """Both ports held, keys watched and usage written; closed at the end.

    Ready from when the public one listens, until `stop` is set. `shared`: keys and limits are those
    of all gateways at the same Redis. Raises PortTaken, Exposed, AuthError, SettingsError and
    UnsupportedRedis.
    """
    access = build_access(settings, observers, shared)
    public = HttpServer(
        settings.host, settings.port, settings.drain_s, shared=shared and settings.reuse_port
    )
    admin = HttpServer(settings.admin_host, settings.admin_port, drain_s=1.0)
    observers.health.add("server", lambda: "draining" if stop.is_set() else public.not_listening())
    running: list[asyncio.Task[None]] = []
    try:
        await admin.start(AdminApp(observers.health, observers.metrics, access.admin_api))
        if not settings.no_auth:
            await access.watch.refresh()
            running += map(asyncio.create_task, (access.watch.run(), access.recorder.run()))
        if isinstance(access.limits, FailoverLimits):
            running.append(asyncio.create_task(access.limits.run()))
        refuse_exposure(settings, access.authenticator)
        yield Doors(public, admin, access)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)  # usage is written a last time
        await admin.stop()
        await access.close()
        public.close()
