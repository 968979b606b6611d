"""A worker over the in-memory transport with a fake engine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from fake_engine import FakeEngine
from transport_jobs import MODEL, make_job, make_spec

from observability.metrics import Metrics
from transport.memory import MemoryTransport
from transport.messages import JobResult
from worker.engine_thread import EngineThread
from worker.worker import LoadedModel, Worker, WorkerConfig


class RunningWorker:
    """A worker and all that it stands between."""

    def __init__(self, max_batch_tokens: int = 100, **config: object) -> None:
        self.engine = FakeEngine(max_batch_tokens)
        self.transport = MemoryTransport()
        self.metrics = Metrics()
        self.metrics.prime(MODEL)
        self.thread = EngineThread(watchdog_s=0.2)
        values = {"receive_wait_s": 0.01} | config
        self.worker = Worker(
            LoadedModel(make_spec(), self.engine, b"{}"),
            self.transport,
            self.thread,
            WorkerConfig(**values),  # type: ignore[arg-type]
            self.metrics,
        )
        self.task = asyncio.create_task(self.worker.run())

    async def submit(self, *ids: int, **changes: object) -> JobResult:
        array = np.asarray(ids, np.int32)
        lengths = changes.pop("lengths", (len(ids),))
        job = make_job(tuple(lengths), input_ids=array, **changes)  # type: ignore[arg-type]
        return await self.transport.submit(job)

    @classmethod
    @asynccontextmanager
    async def ready(cls, **settings: Any) -> "AsyncIterator[RunningWorker]":
        """One that gateways know of."""
        running = cls(**settings)
        while MODEL not in await running.transport.models():
            await asyncio.sleep(0)
        yield running
        await running.stop()

    async def stop(self) -> None:
        self.engine.gate.set()
        self.worker.drain()
        await self.task
        self.thread.stop()

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(
            f"florilege_{name}", labels | {"model": MODEL}
        )
