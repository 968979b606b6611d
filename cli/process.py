"""A serving command's process: signals, exit codes, and how it ends."""

import asyncio
import contextlib
import os
import resource
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NoReturn, TypeVar

import uvloop

from api.model_config import ModelConfigError
from auth.errors import AuthError
from checkpoint.errors import CheckpointError
from cli.console import complain
from cli.exposure import Exposed
from cli.http_server import PortTaken
from cli.settings import Settings, SettingsError
from observability.logs import configure_logs, flush_logs, get_logger, place_of
from transport.redis.errors import UnsupportedRedis

ENGINE_DIED = 70  # EX_SOFTWARE: the supervisor restarts the process
REFUSED = 78  # EX_CONFIG: a restart changes nothing

Serve = Callable[[Settings], Coroutine[Any, Any, int]]
Result = TypeVar("Result")


class StoppedEarly(Exception):
    """Asked to end before it served: a thread may still load models."""


def run_process(serve: Serve, settings: Settings) -> NoReturn:
    """Serve until SIGTERM, SIGINT or the engine's death; exit with the code that `serve` returns.

    A stop that was asked for is no failure, while models load too: 0, or a supervisor would try
    again.
    """
    configure_logs(settings.log_level)
    _allow_connections()
    try:
        code = uvloop.run(_serve_or_leave(serve, settings))
    except _start_errors() as error:
        complain(error)
        sys.exit(REFUSED)
    except _losses() as error:  # of a device: another process may get it back
        complain(error)
        leave(ENGINE_DIED)
    finally:
        flush_logs()
    if code == ENGINE_DIED:
        leave(code)
    sys.exit(code)


def stop_signal() -> asyncio.Event:
    """Set by SIGTERM and SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def unless_stopped(starting: Coroutine[Any, Any, Result], stop: asyncio.Event) -> Result:
    """The result of what must be done before serving. Raises StoppedEarly."""
    task = asyncio.create_task(starting)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not task.done():
        raise StoppedEarly
    return task.result()


def log_failures(workers: Iterable[asyncio.Task[None]]) -> None:
    """By class and place of those that ended with an error."""
    for worker in workers:
        error = worker.exception() if worker.done() and not worker.cancelled() else None
        if error is not None:
            get_logger().error("worker_failed", **place_of(error))


def leave(code: int) -> NoReturn:
    """Exit without the threads that cannot be joined: a blocked step, a download that stalls.

    Interpreter shutdown would wait for them, or crash.
    """
    flush_logs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError):  # nobody reads it; or there is none
            stream.flush()
    os._exit(code)


async def _serve_or_leave(serve: Serve, settings: Settings) -> int:
    asyncio.get_running_loop().set_exception_handler(_log_loop_failure)
    try:
        return await serve(settings)
    except StoppedEarly:
        get_logger().info("stopped", reason="asked to, before it served")
        leave(0)  # from within the loop, whose own end would wait for the loading thread


def _log_loop_failure(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The loop's own report would quote what a callback was called with: a client's bytes."""
    error = context.get("exception")
    get_logger().error("loop_failed", **(place_of(error) if error is not None else {}))


def _allow_connections() -> None:
    """As many open files as the host allows: a soft limit of 1,024 limits connections to that."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS calls its limit infinite, and is not
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _start_errors() -> tuple[type[Exception], ...]:
    """What an operator can mend; anything else is a defect and keeps its traceback."""
    errors: tuple[type[Exception], ...] = (
        AuthError,
        CheckpointError,
        Exposed,
        ModelConfigError,
        PortTaken,
        SettingsError,
        UnsupportedRedis,
    )
    try:
        from engine.errors import EngineError
    except ImportError:
        return errors
    return (*errors, EngineError)


def _losses() -> tuple[type[Exception], ...]:
    try:
        from engine.errors import DeviceLost
    except ImportError:
        return ()
    return (DeviceLost,)
