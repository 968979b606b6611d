"""`florilege serve`: gateway and worker in one process, over memory."""

import asyncio
import gc
from typing import Any

from cli.banner import show_banner
from cli.doors import Doors, open_doors
from cli.loading import Load, load_model
from cli.process import ENGINE_DIED, log_failures, stop_signal, unless_stopped
from cli.settings import Settings
from cli.watches import last_traces, watched
from cli.wiring import Embedded, Observers, build_embedded, build_observers, build_tracing
from observability.logs import get_logger

_LAST_ANSWERS_S = 1.0  # what failed requests have to leave in, once the engine is dead


async def serve(settings: Settings, load: Load = load_model) -> int:
    """The exit code, once everything has ended. `load` is what a model is loaded by.

    Raises StoppedEarly.
    """
    stop = stop_signal()
    observers = build_observers(build_tracing(settings, "florilege"))
    starting = ["loading"]
    observers.health.add("models", lambda: starting[0] if starting else None)
    async with last_traces(observers), open_doors(settings, observers, stop, shared=False) as doors:
        building = build_embedded(settings, doors.access, observers, load)
        embedded = await unless_stopped(building, stop)
        starting.clear()
        async with watched(observers, embedded.specs):
            return await _serve_embedded(embedded, observers, doors, stop)


async def _serve_embedded(
    embedded: Embedded, observers: Observers, doors: Doors, stop: asyncio.Event
) -> int:
    died = embedded.thread.died
    died.add_done_callback(lambda _: embedded.transport.fail("engine_failed"))
    observers.health.add("engine", lambda: "dead" if died.done() else None)
    for worker in embedded.workers:
        await worker.announce()
    running = [asyncio.create_task(worker.run()) for worker in embedded.workers]
    await embedded.watch.refresh()
    watching = asyncio.create_task(embedded.watch.run())
    # What lives now lives on: the collector need not walk the models and libraries again.
    gc.collect()
    gc.freeze()
    await doors.public.start(embedded.app)
    names = [spec.id for spec in embedded.specs]
    url, admin_url = doors.public.url, doors.admin.url
    get_logger().info("serving", url=url, admin_url=admin_url, models=names)
    show_banner(url, admin_url, embedded.specs)
    ends: set[asyncio.Future[Any]] = {died, asyncio.create_task(stop.wait()), *running}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    watching.cancel()
    log_failures(running)
    if not stop.is_set():
        embedded.thread.declare_dead("a worker ended")  # unless the engine did so itself
        get_logger().error("engine_died", reason=died.result())
        await asyncio.wait({asyncio.create_task(doors.public.stop())}, timeout=_LAST_ANSWERS_S)
        return ENGINE_DIED
    await doors.public.stop()
    for worker in embedded.workers:
        worker.drain()
    await asyncio.gather(*running)
    embedded.gateway.close()
    if died.done():
        return ENGINE_DIED
    embedded.thread.stop()
    return 0
