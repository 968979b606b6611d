"""Two workers on one device, each with an engine, weights and a thread of its own."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from reference.sharp import write_checkpoint
from simulated_device import simulate
from transport_jobs import make_job

from cli.loading import load_model
from cli.settings import load_settings
from observability.metrics import Metrics
from transport.memory import MemoryTransport
from transport.messages import Job
from worker.engine_thread import EngineThread
from worker.worker import LoadedModel, Worker, WorkerConfig


class Side:
    """One worker of the pair."""

    def __init__(self, name: str, model: LoadedModel, transport: MemoryTransport) -> None:
        self.name = name
        self.thread = EngineThread(watchdog_s=30)
        config = WorkerConfig(name, max_batch_sequences=2, receive_wait_s=0.01)
        self.worker = Worker(model, transport, self.thread, config, Metrics())
        self.task = asyncio.create_task(self.worker.run())

    async def stop(self) -> None:
        self.worker.drain()
        await self.task
        self.thread.stop()


class Pair:
    def __init__(self, models: list[LoadedModel]) -> None:
        self.transport = MemoryTransport()
        self.model = models[0].spec.id
        self.sides = [Side(f"w{i}", model, self.transport) for i, model in enumerate(models)]

    def jobs(self, count: int) -> list[Job]:
        """Of one text each, of different lengths."""
        rng = np.random.default_rng(0)
        lengths = rng.integers(2, 30, count)
        ids = [rng.integers(5, 60, length).astype(np.int32) for length in lengths]
        return [make_job((len(i),), input_ids=i, model=self.model) for i in ids]


@pytest.fixture
async def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    simulate(monkeypatch)
    directory = tmp_path / "model"
    directory.mkdir()
    write_checkpoint("bert-cls", directory)
    flags = {"dtype": "float32", "kernels": "plain", "self_test": "off"}
    settings = load_settings(flags, {})
    models = [load_model(settings, str(directory)) for _ in range(2)]
    assert [model.spec.runtime["device"] for model in models] == ["simulated:0"] * 2
    pair = Pair(models)
    while pair.model not in await pair.transport.models():
        await asyncio.sleep(0)
    yield pair
    for side in pair.sides:
        await side.stop()


async def test_both_answer_and_alike(pair: Pair) -> None:
    jobs = pair.jobs(16)
    rows: dict[str, dict[int, np.ndarray]] = {side.name: {} for side in pair.sides}
    async with asyncio.timeout(30):
        while any(len(found) < len(jobs) for found in rows.values()):
            again = [replace(job, job_id=f"{job.job_id}-{uuid4().hex}") for job in jobs]
            results = await asyncio.gather(*map(pair.transport.submit, again))
            for i, result in enumerate(results):
                rows[result.worker][i] = result.rows
    first, second = rows.values()
    for i in first:
        np.testing.assert_allclose(first[i], second[i], atol=1e-5)


async def test_end_of_one_engine_leaves_the_other_serving(pair: Pair) -> None:
    dead, alive = pair.sides
    dead.thread.declare_dead("for the test")
    await asyncio.wait_for(dead.task, 5)
    results = await asyncio.gather(*map(pair.transport.submit, pair.jobs(20)))
    assert {result.worker for result in results} == {alive.name}
