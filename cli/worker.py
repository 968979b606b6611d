"""`florilege worker`: jobs from Redis, run on this host's device."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from cli.banner import show_worker_banner
from cli.http_server import HttpServer
from cli.loading import Load, load_model
from cli.process import ENGINE_DIED, leave, log_failures, stop_signal, unless_stopped
from cli.settings import Settings
from cli.watches import last_traces, watched
from cli.wiring import Observers, WorkerSide, build_observers, build_tracing, build_worker
from observability.admin import AdminApp
from observability.logs import get_logger

if TYPE_CHECKING:
    from worker.worker import Worker

_LAST_WORDS_S = 1.0  # for handing back what was not begun, once the engine is dead


async def serve(settings: Settings, load: Load = load_model) -> int:
    """The exit code, once everything has ended. `load` is what a model is loaded by.

    Raises StoppedEarly.
    """
    stop = stop_signal()
    observers = build_observers(build_tracing(settings, "florilege-worker"))
    starting = ["loading"]
    observers.health.add("models", lambda: starting[0] if starting else None)
    observers.health.add("server", lambda: "draining" if stop.is_set() else None)
    async with last_traces(observers), _admin(settings, observers) as admin_url:
        side = await unless_stopped(build_worker(settings, observers, load), stop)
        try:
            await unless_stopped(_announce(side), stop)
            starting.clear()
            _greet(side, admin_url)
            async with watched(observers, side.specs):
                return await _serve(settings, side, observers, stop)
        finally:
            await side.consumer.close()


@asynccontextmanager
async def _admin(settings: Settings, observers: Observers) -> AsyncIterator[str]:
    """The admin port's URL, while it answers. Raises PortTaken."""
    admin = HttpServer(settings.admin_host, settings.admin_port, drain_s=1.0)
    try:
        await admin.start(AdminApp(observers.health, observers.metrics))
        yield admin.url
    finally:
        await admin.stop()


async def _announce(side: WorkerSide) -> None:
    for worker in side.workers:
        await worker.announce()


def _greet(side: WorkerSide, admin_url: str) -> None:
    names = [spec.id for spec in side.specs]
    get_logger().info("serving", worker=side.name, admin_url=admin_url, models=names)
    show_worker_banner(side.name, admin_url, side.specs)


async def _serve(
    settings: Settings, side: WorkerSide, observers: Observers, stop: asyncio.Event
) -> int:
    died = side.thread.died
    observers.health.add("engine", lambda: "dead" if died.done() else None)
    observers.health.add(
        "redis", lambda: None if side.consumer.healthy else "does not let it take jobs"
    )
    gc.collect()
    gc.freeze()  # what lives now lives on: the collector need not walk the models again
    running = [asyncio.create_task(worker.run()) for worker in side.workers]
    ends: set[asyncio.Future[Any]] = {died, asyncio.create_task(stop.wait()), *running}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    log_failures(running)
    if not stop.is_set():
        side.thread.declare_dead("a worker ended")  # unless the engine did so itself
        get_logger().error("engine_died", reason=died.result())
        await asyncio.wait(running, timeout=_LAST_WORDS_S)
        return ENGINE_DIED
    await _drain(side.workers, running, settings.drain_s)
    if died.done():
        return ENGINE_DIED
    side.thread.stop()
    return 0


async def _drain(
    workers: "list[Worker]", running: list[asyncio.Task[None]], drain_s: float
) -> None:
    """What is not answered by then is delivered to others, once its lease has run out."""
    for worker in workers:
        worker.drain()
    _, late = await asyncio.wait(running, timeout=drain_s)
    if late:
        get_logger().warning("drain_unfinished", drain_s=drain_s)
        leave(0)  # the engine's thread may never end
