"""An engine whose rows tell which tokens they came from, and that fails on request."""

import threading
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.batch import Batch
from engine.errors import DeviceLost, OutOfMemory
from engine.lazy import DeviceStats, ResolvedTensor, StepOutput

BAD_ID = 666  # a step that holds it raises
NAN_ID = 667  # its row is not finite
EXIT_ID = 668  # ends the engine's thread


class FakeEngine:
    """Row of a sequence = (sum of its ids, its length, first id, sum of its type ids)."""

    kinds = ("embed", "score")

    def __init__(self, max_batch_tokens: int = 100) -> None:
        self.max_batch_tokens = max_batch_tokens
        self.batches: list[Batch] = []
        self.memory_tokens = 1 << 30  # a larger batch runs out of memory
        self.lost = False  # the device
        self.launch: Literal["replay", "eager"] | None = None  # None: a CPU
        self.device_stats: DeviceStats | None = None
        self.idle_pieces = 0  # of idle work that are left
        self.closed = False
        self.followed = 0  # steps whose callback was attached
        self.gate = threading.Event()
        self.gate.set()
        self.bad_row: Callable[[NDArray[np.int32]], bool] = lambda ids: NAN_ID in ids

    def step(self, batch: Batch) -> ResolvedTensor:
        self.batches.append(batch)
        self.gate.wait()
        if self.lost:
            raise DeviceLost("an illegal memory access was encountered")
        if batch.tokens > self.memory_tokens:
            raise OutOfMemory("CUDA out of memory")
        if EXIT_ID in batch.input_ids:
            raise SystemExit(3)
        if BAD_ID in batch.input_ids:
            raise RuntimeError("a poisonous token")
        return ResolvedTensor(self._output(batch))

    def after_step(self) -> None:
        self.followed += 1

    def idle(self) -> bool:
        self.idle_pieces -= self.idle_pieces > 0
        return self.idle_pieces > 0

    def stats(self) -> DeviceStats | None:
        return self.device_stats

    def close(self) -> None:
        self.closed = True

    def _output(self, batch: Batch) -> StepOutput:
        types = np.zeros(batch.tokens, np.uint8) if batch.type_ids is None else batch.type_ids
        ends = np.cumsum(batch.lengths)
        rows = []
        for start, end in zip(ends - batch.lengths, ends, strict=True):
            ids = batch.input_ids[start:end]
            first = np.nan if self.bad_row(ids) else ids[0]
            rows.append((ids.sum(), len(ids), first, types[start:end].sum()))
        array = np.array(rows, np.float32)
        finite = np.isfinite(array).all(axis=1)
        return StepOutput(array, finite, {"infer": 0.001 * batch.tokens}, 1, launch=self.launch)
