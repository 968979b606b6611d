"""Serves one model: receive -> take_batch -> engine.step -> complete."""

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from checkpoint.spec import ModelSpec
from engine.batch import Batch
from engine.lazy import DeviceStats, LazyTensor, StepOutput
from observability.logs import get_logger, place_of
from observability.metrics import Metrics
from observability.tracing import UNTRACED, Tracing
from transport.messages import JobError
from transport.protocols import Announcement, Delivery, JobConsumer
from worker.batcher import BatchLimits, Waiting, take_batch
from worker.budget import BatchBudget
from worker.device_metrics import DeviceMetrics
from worker.engine_thread import EngineDied, EngineThread
from worker.isolation import BatchOutput, run_isolated
from worker.packing import pack, unpack
from worker.throughput import Throughput
from worker.traces import is_traced, traced_batch, traced_jobs


@dataclass(frozen=True)
class WorkerConfig:
    name: str = "embedded"
    max_batch_sequences: int = 512
    steps_in_flight: int = 2  # one runs, one waits: the device never idles between them
    receive_wait_s: float = 0.5  # bounds how long a drain waits for an empty queue
    heartbeat_s: float = 2.0
    tracing: Tracing = UNTRACED


class ModelEngine(Protocol):
    """What a worker needs of `engine.Engine`."""

    @property
    def kinds(self) -> Collection[str]: ...

    @property
    def max_batch_tokens(self) -> int: ...

    def step(self, batch: Batch) -> LazyTensor: ...

    def after_step(self) -> None: ...

    def idle(self) -> bool: ...

    def stats(self) -> DeviceStats | None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, eq=False)
class LoadedModel:
    spec: ModelSpec
    engine: ModelEngine
    tokenizer_json: bytes


class Worker:
    """Batches form late: only when the engine has room, from whatever waits by then."""

    def __init__(
        self,
        model: LoadedModel,
        consumer: JobConsumer,
        thread: EngineThread,
        config: WorkerConfig,
        metrics: Metrics,
    ) -> None:
        self._model = model
        self._consumer = consumer
        self._thread = thread
        self._config = config
        self._metrics = metrics
        self._budget = BatchBudget(model.engine.max_batch_tokens)
        self._throughput = Throughput(model.engine.max_batch_tokens)
        self._device_metrics = DeviceMetrics(metrics, model.spec.id)
        self._room = asyncio.Semaphore(config.steps_in_flight)
        self._pending: list[Delivery] = []  # received, not yet in a batch
        self._batches: set[asyncio.Task[None]] = set()
        self._draining = False
        self._leaving: asyncio.Task[None] | None = None
        self._measured = asyncio.Event()
        thread.when_idle(model.engine.idle)
        metrics.batch_budget_tokens.labels(model.spec.id).set(model.engine.max_batch_tokens)

    async def run(self) -> None:
        """Serve until drained. Returns early when the engine died: its jobs stay unanswered."""
        heartbeat = asyncio.create_task(self._heartbeat())
        heartbeat.add_done_callback(self._see_end)
        try:
            while not self._draining and not self._thread.died.done():
                await self._room.acquire()
                deliveries = await self._next_batch()
                if not deliveries:
                    self._room.release()
                    continue
                task = asyncio.create_task(self._run_batch(deliveries))
                self._batches.add(task)
                task.add_done_callback(self._batches.discard)
                task.add_done_callback(self._see_end)
            if self._leaving is not None:
                await self._leaving
            await self._hand_back()  # what came while it was drained too, or what a dead engine has
            await asyncio.gather(*self._batches, return_exceptions=True)
            with contextlib.suppress(EngineDied):
                await self._thread.call(self._model.engine.close)
        finally:
            heartbeat.cancel()

    def drain(self) -> None:
        """Take no new jobs, finish the batches that run, hand back what waits for one."""
        self._draining = True
        # At once: `run` may be waiting for a batch to end before it sees this.
        self._leaving = asyncio.create_task(self._hand_back())

    async def _hand_back(self) -> None:
        pending, self._pending = self._pending, []
        await self._consumer.hand_back(pending)
        await self._consumer.release(self._model.spec.id)

    def _see_end(self, task: asyncio.Task[None]) -> None:
        """A task that fails is a defect of ours: its jobs would wait for ever, and the next batch
        may fail too; without heartbeats nobody knows of this worker."""
        if not task.cancelled() and (error := task.exception()) is not None:
            get_logger().error("task_failed", **place_of(error))
            self._thread.declare_dead(f"a task of the worker failed: {type(error).__name__}")

    async def _next_batch(self) -> list[Delivery]:
        if self._draining:
            return []
        free_tokens = self._budget.tokens - sum(d.job.tokens for d in self._pending)
        if free_tokens > 0:
            wait_s = 0.0 if self._pending else self._config.receive_wait_s
            received = await self._consumer.receive(self._model.spec.id, free_tokens, wait_s)
            for delivery in received:
                self._metrics.jobs.labels(self._model.spec.id, delivery.job.lane).inc()
            self._pending += received  # by now: a drain hands back what is there
        pending, self._pending = self._pending, []
        self._pending = await self._still_wanted(pending)
        if self._draining:
            return []
        waiting = [Waiting(d.job, alone=d.attempt > 1) for d in self._pending]
        limits = BatchLimits(self._budget.tokens, self._config.max_batch_sequences)
        count = take_batch(waiting, limits)
        batch, self._pending = self._pending[:count], self._pending[count:]
        return batch

    async def _still_wanted(self, deliveries: list[Delivery]) -> list[Delivery]:
        now_s = asyncio.get_running_loop().time()
        name = self._model.spec.id
        runnable = []
        for delivery in deliveries:
            if delivery.deadline_s <= now_s:
                self._metrics.expired.labels(name).inc()
                await self._consumer.complete(delivery, JobError("deadline"))
            elif delivery.job.kind not in self._model.engine.kinds:
                await self._consumer.complete(delivery, JobError("invalid"))
            else:
                runnable.append(delivery)
        wanted = await self._consumer.renew(runnable)
        if len(wanted) < len(runnable):
            self._metrics.cancelled.labels(name).inc(len(runnable) - len(wanted))
        return wanted

    async def _run_batch(self, deliveries: Sequence[Delivery]) -> None:
        """A further attempt at a job runs with nothing else in flight."""
        turns, again = self._thread.turns, deliveries[0].attempt > 1
        async with turns.alone() if again else turns.shared():
            started_s = asyncio.get_running_loop().time()
            batch = pack([d.job for d in deliveries])
            try:
                if again and not await self._consumer.begin(deliveries[0]):
                    return
                output = await run_isolated(batch, self._run_step)
            except EngineDied:
                return  # whoever supervises answers, or redelivers
            finally:
                self._room.release()
            await self._complete(deliveries, batch, output, started_s)

    async def _run_step(self, batch: Batch) -> StepOutput:
        output = await self._thread.run(
            self._model.engine.step, batch, self._model.engine.after_step
        )
        self._device_metrics.count_step(batch.tokens + output.padded_tokens, output.launch)
        return output

    async def _complete(
        self,
        deliveries: Sequence[Delivery],
        batch: Batch,
        output: BatchOutput,
        started_s: float,
    ) -> None:
        ended_s = asyncio.get_running_loop().time()
        self._record(batch, output)
        answers = []
        results = unpack([d.job for d in deliveries], output)
        if self._config.tracing is not UNTRACED and is_traced(deliveries):
            jobs = traced_jobs(deliveries, results)
            elapsed_s = ended_s - started_s
            traced = traced_batch(self._model.spec.id, elapsed_s, batch, output, jobs)
            self._config.tracing.record_batch(traced)
        for delivery, result in zip(deliveries, results, strict=True):
            queue_s = delivery.waited_s + max(0.0, ended_s - started_s - output.infer_s)
            answer = replace(
                result,
                timings={"queue": queue_s, "infer": output.infer_s},
                worker=self._config.name,
                dtype=self._model.spec.dtype,
            )
            answers.append((delivery, answer))
        if len(answers) == 1:
            await self._consumer.complete(*answers[0])
        else:
            await asyncio.gather(*(self._consumer.complete(*answer) for answer in answers))

    def _record(self, batch: Batch, output: BatchOutput) -> None:
        name = self._model.spec.id
        self._metrics.batch_tokens.labels(name).observe(batch.tokens + output.padded_tokens)
        self._metrics.batch_size.labels(name).observe(batch.sequences)
        self._metrics.batch_duration.labels(name).observe(output.infer_s)
        self._metrics.padding_tokens.labels(name).inc(output.padded_tokens)
        if output.out_of_memory:
            self._metrics.oom.labels(name).inc()
            changed = self._budget.ran_out()
        else:
            changed = output.steps == 1 and self._budget.ran(batch.tokens)
        if changed:
            self._take_budget()
        if output.steps > 1:
            self._metrics.batch_bisect.labels(name).inc()
        elif self._throughput.add(batch.tokens, output.infer_s):
            self._measured.set()
        if output.failed:
            non_finite = sum(code == "non_finite" for code in output.failed.values())
            self._metrics.non_finite.labels(name).inc(non_finite)
            get_logger().error("sequences_failed", model=name, count=len(output.failed))

    def _take_budget(self) -> None:
        """A larger job still runs, alone, and is split where memory is too small for it."""
        tokens, name = self._budget.tokens, self._model.spec.id
        self._throughput.resize(tokens)
        self._metrics.batch_budget_tokens.labels(name).set(tokens)
        get_logger().warning("batch_budget_changed", model=name, max_batch_tokens=tokens)

    async def _heartbeat(self) -> None:
        while True:
            self._device_metrics.set_stats(self._model.engine.stats())
            await self.announce()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._config.heartbeat_s):
                    await self._measured.wait()  # admission must not wait for the first figure
            self._measured.clear()

    async def announce(self) -> None:
        """Tell gateways of the model; `run` repeats it."""
        await self._consumer.announce(
            Announcement(
                self._model.spec, self._model.tokenizer_json, self._throughput.tokens_per_s
            )
        )
