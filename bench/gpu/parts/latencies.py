"""What a step costs beside its forward: copies, events, wake-ups."""

import asyncio
from collections.abc import Sequence
from functools import partial
from time import perf_counter

import torch
from torch import Tensor

from bench.gpu.loads import batch_of, random_texts
from bench.gpu.parts.part import Row, Rows, Value
from bench.gpu.setup import Setup
from bench.gpu.shapes import ModelShape
from bench.gpu.timing import time_enqueued
from bench.statistics import latency
from engine.batch import Batch
from engine.engine import Engine
from engine.lazy import LazyTensor

_TOKENS = 128
_WARM_UP = 5  # past the third use, from which a graph is replayed


def measure(setup: Setup) -> Rows:
    yield from _copies(setup)
    yield _row("an event on an idle device: record and wait", _events(setup))
    for shape in setup.models:
        yield from _steps(setup, shape)


def _copies(setup: Setup) -> Rows:
    device, count = setup.device, setup.sizes.copied_bytes
    host = device.pinned(count)
    there = torch.empty(count, dtype=torch.uint8, device=device.place)
    device.synchronize()
    for name, source, target in (("to the device", host, there), ("to the host", there, host)):
        copy = partial(_copy, source, target)
        timing = time_enqueued(device, partial(device.run, copy), setup.sizes.effort)
        columns: dict[str, Value] = {
            "copy": name,
            "bytes": count,
            "device_us": timing.device_s * 1e6,
            "launch_us": timing.launch_s * 1e6,
            "gb_per_s": count / timing.device_s / 1e9,
        }
        yield Row("Copies of page-locked memory", columns)


def _copy(source: Tensor, target: Tensor) -> None:
    target.copy_(source, non_blocking=True)


def _events(setup: Setup) -> list[float]:
    took_s = []
    event = setup.device.event()
    for _ in range(setup.sizes.latency_runs):
        started_s = perf_counter()
        event.record()
        event.synchronize()
        took_s.append(perf_counter() - started_s)
    return took_s


def _steps(setup: Setup, shape: ModelShape) -> Rows:
    """From the packed ids of one text to its vector, on the host and on an event loop."""
    engine = setup.engine(shape)
    batch = batch_of(random_texts([min(_TOKENS, shape.max_tokens)], shape.vocabulary))
    for _ in range(_WARM_UP):
        engine.step(batch).wait()
    runs = [_timed_step(engine, batch) for _ in range(setup.sizes.latency_runs)]
    wakes_s = asyncio.run(_wakes(engine, batch, setup.sizes.latency_runs))
    returned_s, total_s, infer_s = zip(*runs, strict=True)
    beside_s = [total - infer for total, infer in zip(total_s, infer_s, strict=True)]
    name = f"{shape.name}, 1×{_TOKENS}"
    yield _row(f"{name}: step() returns", returned_s)
    yield _row(f"{name}: step() to rows on the host", total_s)
    yield _row(f"{name}: of which on the device", infer_s)
    yield _row(f"{name}: beside the device", beside_s)
    yield _row(f"{name}: rows known to a coroutine that awaits them", wakes_s)


def _timed_step(engine: Engine, batch: Batch) -> tuple[float, float, float]:
    """Seconds until step() returned, until the rows were there, and of the device."""
    started_s = perf_counter()
    lazy = engine.step(batch)
    returned_s = perf_counter()
    output = lazy.wait()
    done_s = perf_counter()
    return returned_s - started_s, done_s - started_s, output.timings["infer"]


async def _wakes(engine: Engine, batch: Batch, runs: int) -> list[float]:
    """From the completion thread's call to the coroutine."""
    loop = asyncio.get_running_loop()
    took_s = []
    for _ in range(runs):
        known: asyncio.Future[float] = loop.create_future()

        def resolve(_: LazyTensor, known: asyncio.Future[float] = known) -> None:
            loop.call_soon_threadsafe(known.set_result, perf_counter())

        engine.step(batch).add_done_callback(resolve)
        called_s = await known
        took_s.append(perf_counter() - called_s)
    return took_s


def _row(what: str, took_s: Sequence[float]) -> Row:
    found = latency(took_s)
    figures = {"p50_us": found.p50_ms, "p99_us": found.p99_ms, "max_us": found.max_ms}
    return Row("Latencies", {"": what, **{name: ms * 1e3 for name, ms in figures.items()}})
