"""Runs a model on an accelerator: packs, enqueues, and is back before the device is done."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic, perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from engine.batch import Batch
from engine.device.buckets import Configuration
from engine.device.completion import Completion
from engine.device.device import Event
from engine.device.hot_list import HotList, cold_configurations
from engine.device.memory import translated
from engine.device.program import STEPS_IN_FLIGHT, Equipment, ModelProgram
from engine.device.staging import Block, OutputPool
from engine.device.startup import (
    measured_graph_tokens,
    memory_is_told,
    primed_graphs,
    reserve,
    warm_up_short_steps,
)
from engine.errors import EngineError, OutOfMemory
from engine.heads.head import Head
from engine.lazy import DeviceStats, LazyTensor, StepOutput
from engine.packing import Layout, row_offsets
from engine.runner import Model

logger = logging.getLogger(__name__)

_MEMORY_EVERY_S = 2.0  # it is a call to the driver, of which nobody sees more than a heartbeat's


@dataclass(frozen=True)
class DeviceConfig:
    budget_tokens: int  # of a step; a longer sequence runs alone
    graphs: bool = True
    # Where the hot configurations of the last run are, and the model's key in there.
    hot_list: Callable[[tuple[Configuration, ...]], HotList] | None = None


class DeviceRunner:
    """Up to two steps in flight: one runs, one waits. `step` is for one thread at a time."""

    def __init__(self, equipment: Equipment, model: Model, config: DeviceConfig) -> None:
        """Take memory, measure and capture. Raises EngineError where memory is too small."""
        self._device, self._model = equipment.device, model
        self._attention = equipment.attention
        self._due: Configuration | None = None  # what may have to be captured after its step
        free_bytes, _ = self._device.memory()
        with memory_is_told(self._device, config.budget_tokens):
            self._program = ModelProgram(equipment, model, config.budget_tokens)
            reserve(self._program, self._device, config.budget_tokens)
            warm_up_short_steps(self._program, self._device)
            self._graph_tokens = 0
            if config.graphs:
                self._graph_tokens = measured_graph_tokens(
                    self._program, self._device, config.budget_tokens
                )
            self._program.reserve_outputs(self._graph_tokens)
            self._hot = self._hot_list(config)
            self._graphs = primed_graphs(self._program, self._device, self._graph_tokens, self._hot)
            self._device.synchronize()
        self._memory, self._looked_s = self._device.memory(), monotonic()
        self._reserved_bytes = free_bytes - self._memory[0]
        self._blocks = OutputPool(self._device, STEPS_IN_FLIGHT)
        self._completion = Completion()
        logger.info(
            "%s: %s attention, graphs up to %d tokens, %d MiB beside the weights",
            self._device.name,
            "/".join(self._attention.names),
            self._graph_tokens,
            self._reserved_bytes >> 20,
        )

    def step(self, batch: Batch) -> LazyTensor:
        """Raises OutOfMemory, after which the engine goes on, and DeviceLost."""
        with self._translating():
            self._capture_due()
            return self._enqueue(batch)

    def after_step(self) -> None:
        with self._translating():
            self._capture_due()
            self._look_at_memory()

    def idle(self) -> bool:
        with self._translating():
            self._look_at_memory()
            return self._graphs.idle()

    def runtime(self) -> Mapping[str, Any]:
        return {
            "attention": "/".join(self._attention.names),
            "graph_max_tokens": self._graph_tokens,
            "reserved_bytes": self._reserved_bytes,
        }

    def stats(self) -> DeviceStats:
        """As of the last step or idle time. From any thread, and without asking the device."""
        graphs = self._graphs.stats
        free_bytes, total_bytes = self._memory
        return DeviceStats(
            graphs=graphs.count,
            graph_bytes=graphs.bytes,
            captures=graphs.captures,
            failed_captures=graphs.failed,
            evictions=graphs.evictions,
            used_bytes=total_bytes - free_bytes,
            total_bytes=total_bytes,
        )

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            translation = translated(error)
            if isinstance(translation, OutOfMemory):
                self._release_unused()
            raise translation  # noqa: B904 - which knows its cause

    def _release_unused(self) -> None:
        try:
            self._device.release_unused()
        except RuntimeError as error:
            raise translated(error)  # noqa: B904

    def _look_at_memory(self) -> None:
        now_s = monotonic()
        if now_s - self._looked_s > _MEMORY_EVERY_S:
            self._memory, self._looked_s = self._device.memory(), now_s

    def _capture_due(self) -> None:
        configuration, self._due = self._due, None
        if configuration is not None:
            self._graphs.after_step(configuration)

    def close(self) -> None:
        if self._hot is not None:
            self._hot.save()
        self._completion.stop()

    def _enqueue(self, batch: Batch) -> LazyTensor:
        started_s = perf_counter()
        head = self._model.heads[batch.kind]
        batch = head.arrange(batch)
        configuration, padded = self._configure(batch)
        started, ended = self._device.event(), self._device.event()
        started.record()
        self._program.upload(configuration, batch)
        packed_s = perf_counter()
        launch, output = self._launch(configuration, padded)
        shape = _rows_of(head, batch), self._program.width(configuration.kind) + 1
        block = self._blocks.take(4 * shape[0] * shape[1])
        try:
            self._device.run(partial(_download, output, block, shape))
            ended.record()
        except Exception:
            self._blocks.give(block)
            raise
        self._due = configuration
        return self._completion.follow(
            ended,
            partial(
                self._finish,
                _Step(
                    head=head,
                    layout=Layout(batch, row_offsets(batch)),
                    block=block,
                    shape=shape,
                    started=started,
                    ended=ended,
                    pack_s=packed_s - started_s,
                    padded_tokens=configuration.tokens - batch.tokens,
                    launch=launch,
                ),
            ),
        )

    def _configure(self, batch: Batch) -> tuple[Configuration, bool]:
        rows = batch.sequences if batch.spans is None else len(batch.spans)
        for count, what in ((batch.tokens, "tokens"), (rows, "spans")):
            if count > self._program.max_tokens:  # spans overlap where they are more than tokens
                raise EngineError(
                    f"a batch has {count} {what}; steps have {self._program.max_tokens} at most"
                )
        bound = int(batch.lengths.max()) if self._attention.bakes_max_seqlen else 0
        return self._graphs.configure(batch.kind, batch.tokens, rows, bound)

    def _launch(
        self, configuration: Configuration, padded: bool
    ) -> tuple[Literal["replay", "eager"], list[Tensor]]:
        """How it was launched, and a list that gets its output."""
        if padded:
            launch = self._graphs.launch(configuration)
            return launch, [self._program.output(configuration)]
        return "eager", self._program.run_exact(configuration)

    def _finish(self, step: "_Step") -> StepOutput:
        """On the completion thread, once the device has come by the end of the step."""
        _, columns = step.shape
        table = step.block.rows(*step.shape).numpy()
        rows = table[:, : columns - 1].copy()
        finite = table[:, columns - 1] == 1
        self._blocks.give(step.block)
        answer = step.head.collect(rows, step.layout)
        return StepOutput(
            rows=answer.rows,
            finite=_by_sequence(finite, step.head, step.layout),
            timings={"pack": step.pack_s, "infer": step.ended.elapsed_s(step.started)},
            padded_tokens=step.padded_tokens,
            row_offsets=answer.row_offsets,
            indices=answer.indices,
            launch=step.launch,
        )

    def _hot_list(self, config: DeviceConfig) -> HotList | None:
        if not self._graph_tokens or config.hot_list is None:
            return None
        kind = self._program.kinds[0]
        return config.hot_list(cold_configurations(kind, self._attention.bakes_max_seqlen))


@dataclass(frozen=True, eq=False)
class _Step:
    """What is left to do when the device is done."""

    head: Head
    layout: Layout
    block: Block
    shape: tuple[int, int]  # of what is downloaded: rows, and D + 1
    started: Event
    ended: Event
    pack_s: float
    padded_tokens: int
    launch: Literal["replay", "eager"]


def _download(output: list[Tensor], block: Block, shape: tuple[int, int]) -> None:
    block.rows(*shape).copy_(output[0][: shape[0]], non_blocking=True)


def _rows_of(head: Head, batch: Batch) -> int:
    """Rows of a batch, of those that a forward gives."""
    if head.rows == "token":
        return batch.tokens
    if head.rows == "sequence" or batch.spans is None:
        return batch.sequences
    return len(batch.spans)


def _by_sequence(finite: NDArray[np.bool_], head: Head, layout: Layout) -> NDArray[np.bool_]:
    """[rows] -> [B]: whether all rows of each sequence are finite."""
    offsets = layout.row_offsets
    if head.rows == "token":
        offsets = np.concatenate([[0], np.cumsum(layout.batch.lengths)])
    if head.rows == "sequence" or offsets is None:
        return finite
    return np.logical_and.reduceat(finite, offsets[:-1])
