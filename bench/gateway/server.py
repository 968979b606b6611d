"""`florilege serve` with a clock at every hand-over, and a second port that tells what it read.

Only what the wiring hands around is wrapped: the app, the transport, the engines. Their clock is
that of the client, CLOCK_MONOTONIC, so that both belong to one line of time.
"""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

import orjson
import typer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from bench.simulated_engine import SimulatedDevice
from cli.flags import SERVE
from cli.http_server import HttpServer
from cli.loading import Load, load_model
from cli.options import with_settings
from cli.process import run_process, stop_signal
from cli.settings import Settings
from cli.watches import watched
from cli.wiring import build_access, build_gateway, build_observers, build_workers, load_models
from engine.batch import Batch
from engine.lazy import DeviceStats, LazyTensor
from observability.logs import get_logger
from transport.memory import MemoryTransport
from transport.messages import Job, JobResult, Outcome
from transport.protocols import Delivery
from worker.engine_thread import EngineThread
from worker.worker import LoadedModel, ModelEngine, WorkerConfig

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Message = MutableMapping[str, Any]


@dataclass(eq=False)
class Passage:
    """When one request passed each point, by time.perf_counter."""

    first: dict[str, float] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)
    engine_s: float = 0.0  # within steps
    steps: int = 0


class Clock:
    """Of requests that come one after another."""

    def __init__(self) -> None:
        self._passages: list[Passage] = []
        self.now = Passage()

    def begin(self) -> None:
        self.now = Passage()
        self._passages.append(self.now)

    def pass_by(self, point: str) -> None:
        now_s = time.perf_counter()
        self.now.first.setdefault(point, now_s)
        self.now.last[point] = now_s

    def take(self) -> list[Passage]:
        """Those since the last time."""
        passages, self._passages = self._passages, []
        return passages


class _TimedApp:
    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        self._clock.begin()
        self._clock.pass_by("app")

        async def timed_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._clock.pass_by("answer")
            await send(message)

        await self._app(scope, receive, timed_send)


class _TimedTransport(MemoryTransport):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    async def submit(self, job: Job) -> JobResult:
        self._clock.pass_by("submit")
        result = await super().submit(job)
        self._clock.pass_by("submitted")
        return result

    async def receive(self, model: str, max_tokens: int, wait_s: float) -> list[Delivery]:
        received = await super().receive(model, max_tokens, wait_s)
        if received:
            self._clock.pass_by("receive")
        return received

    async def complete(self, delivery: Delivery, outcome: Outcome) -> None:
        self._clock.pass_by("complete")
        await super().complete(delivery, outcome)


class _TimedEngine:
    def __init__(self, engine: ModelEngine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def step(self, batch: Batch) -> LazyTensor:
        self._clock.pass_by("step")
        began_s = time.perf_counter()
        lazy = self._engine.step(batch)
        lazy.wait()  # at once on a CPU
        self._clock.now.engine_s += time.perf_counter() - began_s
        self._clock.now.steps += 1
        self._clock.pass_by("stepped")
        return lazy

    @property
    def kinds(self) -> Collection[str]:
        return self._engine.kinds

    @property
    def max_batch_tokens(self) -> int:
        return self._engine.max_batch_tokens

    def after_step(self) -> None:
        self._engine.after_step()

    def idle(self) -> bool:
        return self._engine.idle()

    def stats(self) -> DeviceStats | None:
        return self._engine.stats()

    def close(self) -> None:
        self._engine.close()


@app.command()
@with_settings(SERVE)
def serve(
    settings: Settings,
    simulated: Annotated[bool, typer.Option(help="A device that takes no time")] = False,
) -> None:
    device = SimulatedDevice(float("inf"), 0.0, max_batch_tokens=2_048)
    run_process(partial(_serve, load=device.load if simulated else load_model), settings)


async def _serve(settings: Settings, load: Load) -> int:
    stop, observers, clock = stop_signal(), build_observers(), Clock()
    thread = EngineThread(settings.watchdog_s)
    models = await load_models(settings, thread, load)
    transport = _TimedTransport(clock)
    timed = [replace(model, engine=_TimedEngine(model.engine, clock)) for model in models]
    workers = build_workers(timed, transport, thread, WorkerConfig(), observers.metrics)
    for worker in workers:
        await worker.announce()
    access = build_access(settings, observers, shared=False)
    side = build_gateway(settings, transport, access, observers)
    await side.watch.refresh()
    running = [asyncio.create_task(worker.run()) for worker in workers]
    public, meter = (HttpServer(settings.host, 0, drain_s=1.0) for _ in range(2))
    async with watched(observers):
        gc.collect()
        gc.freeze()
        await public.start(_TimedApp(side.app, clock))
        await meter.start(_meter(clock, {"url": public.url, **_described(models)}))
        get_logger().info("serving", url=meter.url)
        await stop.wait()
    for server in (public, meter):
        await server.stop()
    for worker in workers:
        worker.drain()
    await asyncio.gather(*running)
    await access.close()
    return 0


def _described(models: Sequence[LoadedModel]) -> dict[str, str]:
    spec = models[0].spec
    kernels = spec.runtime.get("kernels", spec.runtime.get("device", ""))
    return {"model": spec.id, "dtype": spec.dtype, "kernels": str(kernels)}


def _meter(clock: Clock, told: dict[str, str]) -> Starlette:
    """Who passed since the last call, and the CPU since the start: of the loop, of the process."""

    async def answer(_: Request) -> Response:
        cpu = {"loop_cpu_s": time.thread_time(), "cpu_s": time.process_time()}
        return Response(orjson.dumps({**told, **cpu, "passages": clock.take()}))

    return Starlette(routes=[Route("/", answer)])


if __name__ == "__main__":
    app()
