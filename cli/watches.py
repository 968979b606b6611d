"""What a process tells of itself beside its work: how late its event loop is, and its GPUs."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from checkpoint.spec import ModelSpec
from observability.gpus import GpuMetrics, open_nvml
from observability.loop_lag import watch_loop
from observability.metrics import Metrics


@contextmanager
def watched(metrics: Metrics, specs: Sequence[ModelSpec] = ()) -> Iterator[None]:
    """`specs`: of the models that run in this process. GPUs are told of where one has them."""
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
