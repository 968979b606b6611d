"""`florilege gateway`: HTTP in, jobs to the workers at the same Redis. Needs no torch."""

import asyncio
import gc

from cli.banner import show_banner
from cli.doors import Doors, open_doors
from cli.process import stop_signal, unless_stopped
from cli.settings import Settings
from cli.watches import last_traces, watched
from cli.wiring import GatewaySide, build_client, build_gateway, build_observers, build_tracing
from observability.logs import get_logger


async def serve(settings: Settings) -> int:
    """The exit code, once everything has ended. Raises StoppedEarly."""
    stop = stop_signal()
    observers = build_observers(build_tracing(settings, "florilege-gateway"))
    client = build_client(settings, observers.metrics)
    health = observers.health
    health.add("redis", lambda: None if client.healthy else "Redis does not answer")
    async with last_traces(observers), open_doors(settings, observers, stop, shared=True) as doors:
        side = build_gateway(settings, client, doors.access, observers)
        health.add("workers", lambda: side.watch.lacking(settings.ready_when))
        try:
            await unless_stopped(client.start(), stop)
            async with watched(observers):
                return await _serve(side, doors, stop)
        finally:
            side.gateway.close()
            await client.close()


async def _serve(side: GatewaySide, doors: Doors, stop: asyncio.Event) -> int:
    """Requests are answered before any worker is there: with a 503, as they say what is known."""
    watching = asyncio.create_task(side.watch.run())
    gc.collect()
    gc.freeze()  # what lives now lives on
    await doors.public.start(side.app)
    url, admin_url = doors.public.url, doors.admin.url
    specs = [served.spec for served in (await side.gateway.catalog.models()).values()]
    get_logger().info("serving", url=url, admin_url=admin_url, models=[s.id for s in specs])
    show_banner(url, admin_url, specs)
    await stop.wait()
    await doors.public.stop()
    watching.cancel()
    return 0
