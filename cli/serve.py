"""`florilege serve`: gateway and worker in one process, from start to exit code."""

import asyncio
import contextlib
import gc
import ipaddress
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import uvloop

from auth.errors import AuthError
from checkpoint.errors import CheckpointError
from cli.banner import show_banner
from cli.console import complain
from cli.http_server import HttpServer, PortTaken
from cli.settings import Settings, SettingsError
from cli.wiring import Embedded, Observers, build_embedded, build_keys, build_observers
from observability.admin import AdminApp
from observability.logs import configure_logs, get_logger, place_of

if TYPE_CHECKING:
    from auth.authenticator import Authenticator

ENGINE_DIED = 70  # EX_SOFTWARE: the supervisor restarts the process
REFUSED = 78  # EX_CONFIG: a restart changes nothing
_LAST_ANSWERS_S = 1.0  # what failed requests have to leave in, once the engine is dead


class Exposed(Exception):
    """A server that strangers can reach and that has no keys."""


class StoppedLoading(Exception):
    """Asked to end while a thread still loads models."""


def run(settings: Settings) -> None:
    """Serve until SIGTERM, SIGINT or the engine's death; exits the process.

    A stop that was asked for is no failure, while models load too: 0, or a supervisor would try
    again.
    """
    configure_logs(settings.log_level)
    _allow_connections()
    try:
        code = uvloop.run(_serve_or_leave(settings))
    except _start_errors() as error:
        complain(error)
        sys.exit(REFUSED)
    except _loss() as error:  # of its device: with another process it may come back
        complain(error)
        _leave(ENGINE_DIED)
    if code == ENGINE_DIED:
        _leave(code)
    sys.exit(code)


def _allow_connections() -> None:
    """As many open files as the host allows: a soft limit of 1,024 limits connections to that."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS calls its limit infinite, and is not
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve_or_leave(settings: Settings) -> int:
    try:
        return await serve(settings)
    except StoppedLoading:
        get_logger().info("stopped", reason="asked to, while loading")
        _leave(0)  # from within the loop, whose own end would wait for the loading thread


def _leave(code: int) -> NoReturn:
    """Exit without the threads that cannot be joined: a blocked step, a download that stalls.

    Interpreter shutdown would wait for them, or crash.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def serve(settings: Settings) -> int:
    """The exit code, once everything has ended. Raises StoppedLoading."""
    stop = _stop_signal()
    observers = build_observers()
    starting = ["loading"]
    observers.health.add("models", lambda: starting[0] if starting else None)
    authenticator, watch, store = build_keys(settings)
    public = HttpServer(settings.host, settings.port, settings.drain_s)
    admin = HttpServer(settings.admin_host, settings.admin_port, drain_s=1.0)
    watching = None
    try:
        await admin.start(AdminApp(observers.health, observers.metrics))
        if not settings.no_auth:
            await watch.refresh()
            watching = asyncio.create_task(watch.run())
        _refuse_exposure(settings, authenticator)
        loading = asyncio.create_task(build_embedded(settings, authenticator, observers))
        embedded = await _unless_stopped(loading, stop)
        starting.clear()
        return await _serve_embedded(embedded, observers, public, admin, stop)
    finally:
        if watching is not None:
            watching.cancel()
        await store.close()
        await admin.stop()
        public.close()


async def _unless_stopped(loading: "asyncio.Task[Embedded]", stop: asyncio.Event) -> Embedded:
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not loading.done():
        raise StoppedLoading
    return loading.result()


async def _serve_embedded(
    embedded: Embedded,
    observers: Observers,
    public: HttpServer,
    admin: HttpServer,
    stop: asyncio.Event,
) -> int:
    died = embedded.thread.died
    died.add_done_callback(lambda _: embedded.transport.fail("engine_failed"))
    observers.health.add("engine", lambda: "dead" if died.done() else None)
    observers.health.add("server", lambda: "draining" if stop.is_set() else None)
    for worker in embedded.workers:
        await worker.announce()
    running = [asyncio.create_task(worker.run()) for worker in embedded.workers]
    observing = asyncio.create_task(embedded.gateway.observe_queues())
    await embedded.gateway.warm()
    # What lives now lives on: the collector need not walk the models and libraries again.
    gc.collect()
    gc.freeze()
    await public.start(embedded.app)
    names = [spec.id for spec in embedded.specs]
    get_logger().info("serving", url=public.url, admin_url=admin.url, models=names)
    show_banner(public.url, admin.url, embedded.specs)
    ends: set[asyncio.Future[Any]] = {died, asyncio.create_task(stop.wait()), *running}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    observing.cancel()
    _log_failures(running)
    if not stop.is_set():
        embedded.thread.declare_dead("a worker ended")  # unless the engine did so itself
        get_logger().error("engine_died", reason=died.result())
        await asyncio.wait({asyncio.create_task(public.stop())}, timeout=_LAST_ANSWERS_S)
        return ENGINE_DIED
    await public.stop()
    for worker in embedded.workers:
        worker.drain()
    await asyncio.gather(*running)
    embedded.gateway.close()
    if died.done():
        return ENGINE_DIED
    embedded.thread.stop()
    return 0


def _log_failures(workers: list[asyncio.Task[None]]) -> None:
    for worker in workers:
        error = worker.exception() if worker.done() and not worker.cancelled() else None
        if error is not None:
            get_logger().error("worker_failed", **place_of(error))


def _stop_signal() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _refuse_exposure(settings: Settings, authenticator: "Authenticator") -> None:
    if not authenticator.is_open:
        return
    if settings.no_auth or _is_loopback(settings.host):
        get_logger().warning("open", reason="no key exists: whoever reaches this port may call it")
        return
    raise Exposed(
        f"refusing to serve {settings.host} to strangers: make a key with "
        "`florilege keys create --name NAME`, or say --no-auth"
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name that may resolve to anything


def _loss() -> tuple[type[Exception], ...]:
    try:
        from engine.errors import DeviceLost
    except ImportError:
        return ()
    return (DeviceLost,)


def _start_errors() -> tuple[type[Exception], ...]:
    """What an operator can mend; anything else is a defect and keeps its traceback."""
    errors: tuple[type[Exception], ...] = (
        AuthError,
        CheckpointError,
        Exposed,
        PortTaken,
        SettingsError,
    )
    try:
        from engine.errors import EngineError
    except ImportError:
        return errors
    return (*errors, EngineError)
