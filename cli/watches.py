"""What a process tells of itself beside its work: its event loop, its GPUs, its last traces."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from checkpoint.spec import ModelSpec
from cli.wiring import Observers
from observability.gpus import GpuMetrics, open_nvml
from observability.loop_lag import watch_loop
from observability.tracing import UNTRACED


@asynccontextmanager
async def watched(observers: Observers, specs: Sequence[ModelSpec] = ()) -> AsyncIterator[None]:
    """`specs`: of the models that run in this process. GPUs are told of where one has them."""
    metrics = observers.metrics
    tasks = [asyncio.create_task(watch_loop(metrics))]
    if any(str(spec.runtime.get("device", "")).startswith("cuda") for spec in specs):
        reader = open_nvml()
        if reader is not None:
            tasks.append(asyncio.create_task(GpuMetrics(metrics, reader).run()))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def last_traces(observers: Observers) -> AsyncIterator[None]:
    """Sent once all else has ended: a collector that does not answer holds up nothing but this."""
    try:
        yield
    finally:
        if observers.tracing is not UNTRACED:
            await asyncio.to_thread(observers.tracing.close)
