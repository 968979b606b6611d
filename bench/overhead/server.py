"""One model behind two apps of one process: one observed as the product is, one by nothing.

Both run on one event loop, one engine and one device, so that they differ in nothing else. A third
port tells where they are, and what the event loop's thread has used of the CPU.
"""

import asyncio
import gc
import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Self, cast

import orjson
import typer
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from api.access_log import AccessLog
from api.middleware import RequestMiddleware
from bench.simulated_engine import SimulatedDevice
from cli.flags import SERVE
from cli.http_server import HttpServer
from cli.loading import Load, load_model
from cli.options import with_settings
from cli.process import run_process, stop_signal
from cli.settings import Settings
from cli.watches import watched
from cli.wiring import (
    Observers,
    build_access,
    build_gateway,
    build_observers,
    build_workers,
    load_models,
)
from observability.health import Health
from observability.logs import get_logger
from observability.metrics import Metrics
from transport.memory import MemoryTransport
from worker.engine_thread import EngineThread
from worker.worker import LoadedModel, Worker, WorkerConfig

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class NoMetrics:
    """Stands for every metric, and counts none."""

    def __getattr__(self, _: str) -> Self:
        return self

    def __call__(self, *_: object, **__: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _NoLog(AccessLog):
    def record(self, *_: Any) -> None:
        pass


class _UnloggedRequests(RequestMiddleware):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._log = _NoLog(cast(Metrics, NoMetrics()))


@app.command()
@with_settings(SERVE)
def serve(
    settings: Settings,
    simulated: Annotated[bool, typer.Option(help="A device that only waits")] = False,
) -> None:
    load = SimulatedDevice().load if simulated else load_model
    run_process(partial(_serve, load=load), settings)


async def _serve(settings: Settings, load: Load) -> int:
    stop = stop_signal()
    observers = build_observers()
    thread = EngineThread(settings.watchdog_s)
    models = await load_models(settings, thread, load)
    bare_observers = Observers(cast(Metrics, NoMetrics()), Health())
    observed, workers = await _side(settings, observers, models, thread)
    bare, bare_workers = await _side(settings, bare_observers, models, thread)
    bare.user_middleware = [
        Middleware(_UnloggedRequests, *m.args, **m.kwargs)
        if cast(object, m.cls) is RequestMiddleware
        else m
        for m in bare.user_middleware
    ]
    running = [asyncio.create_task(worker.run()) for worker in (*workers, *bare_workers)]
    servers = [HttpServer(settings.host, 0, drain_s=1.0) for _ in range(3)]
    told = {"observed": servers[0].url, "bare": servers[1].url, "model": models[0].spec.id}
    async with watched(observers):
        gc.collect()
        gc.freeze()
        for server, its_app in zip(servers, (observed, bare, _meter(told)), strict=True):
            await server.start(its_app)
        get_logger().info("serving", url=servers[2].url)
        await stop.wait()
    for server in servers:
        await server.stop()
    for worker in (*workers, *bare_workers):
        worker.drain()
    await asyncio.gather(*running)
    os._exit(0)  # the engine is closed twice over: there is nothing to end in order


async def _side(
    settings: Settings, observers: Observers, models: Sequence[LoadedModel], thread: EngineThread
) -> tuple[FastAPI, list[Worker]]:
    transport, config = MemoryTransport(), WorkerConfig()
    workers = build_workers(models, transport, thread, config, observers.metrics)
    for worker in workers:
        await worker.announce()
    access = build_access(settings, observers, shared=False)
    side = build_gateway(settings, transport, access, observers)
    await side.watch.refresh()
    return side.app, workers


def _meter(told: dict[str, str]) -> Starlette:
    async def answer(_: Request) -> Response:
        return Response(
            orjson.dumps(told | {"loop_cpu_s": time.thread_time(), "cpu_s": time.process_time()})
        )

    return Starlette(routes=[Route("/", answer)])


if __name__ == "__main__":
    app()
