"""An engine that waits instead of computing: a delay a step and a token, rows that follow from ids.

Nothing of torch: dozens of such devices fit on one machine.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from checkpoint.find import find_model
from checkpoint.read import read_model, read_tokenizer
from checkpoint.spec import ModelSpec
from engine.batch import Batch
from engine.lazy import DeviceStats, ResolvedTensor, StepOutput
from worker.worker import LoadedModel

if TYPE_CHECKING:
    from cli.settings import Settings

_STEP = np.uint64(
    0x9E3779B97F4A7C15
)  # 2^64 / golden ratio, made odd: it spreads what it multiplies


def rows_of(
    input_ids: NDArray[np.int32], lengths: NDArray[np.int32], width: int
) -> NDArray[np.float32]:
    """[B, width], in [-1, 1): a hash of each sequence's ids in their order, and of nothing else."""
    ids = input_ids.astype(np.uint64)
    starts = np.cumsum(lengths) - lengths
    places = np.arange(ids.size, dtype=np.uint64) - np.repeat(starts, lengths).astype(np.uint64)
    seeds = np.add.reduceat((ids + np.uint64(1)) * _mixed(places), starts)  # [B]
    columns = _mixed(np.arange(width, dtype=np.uint64) + _STEP)  # [width]
    bits = _mixed(seeds[:, None] ^ columns) >> np.uint64(40)  # [B, width]
    rows: NDArray[np.float32] = (bits.astype(np.float32) / 2**23 - 1).astype(np.float32)
    return rows


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of splitmix64: every bit of the value moves every bit of the result."""
    mixed = (values + np.uint64(1)) * _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def die(_: Batch) -> None:
    """As by the kernel's hand: nothing of this process runs any more."""
    os.kill(os.getpid(), signal.SIGKILL)


def block(_: Batch) -> None:
    time.sleep(3600)


def end(_: Batch) -> None:
    raise SystemExit(1)


def fail(_: Batch) -> None:
    raise RuntimeError("a token that the device does not like")


# What a token can do: kill the process, end or block the engine's thread, fail its step.
FAULTS: Mapping[str, Callable[[Batch], None]] = {
    "die": die,
    "end": end,
    "block": block,
    "fail": fail,
}


@dataclass(frozen=True)
class SimulatedDevice:
    """How long a step takes, and what it takes amiss."""

    tokens_per_s: float = 1e6
    step_s: float = 0.001  # of every step, however small
    max_batch_tokens: int = 8_192
    faults: Mapping[int, str] = field(default_factory=dict)  # by token id

    def load(self, settings: "Settings", name: str) -> LoadedModel:
        """The model of that name, of which the weights are not needed."""
        spec, files = read_model(find_model(name))
        tokens = settings.max_batch_tokens or self.max_batch_tokens
        spec = replace(spec, shard_tokens=tokens, runtime={"device": "simulated"})
        engine = SimulatedEngine(replace(self, max_batch_tokens=tokens), spec)
        return LoadedModel(spec, engine, read_tokenizer(files.directory))


class SimulatedEngine:
    """What a worker needs of an engine."""

    def __init__(self, device: SimulatedDevice, spec: ModelSpec) -> None:
        self.kinds = (spec.task,)
        self.max_batch_tokens = device.max_batch_tokens
        self._device = device
        self._width = spec.dim

    def step(self, batch: Batch) -> ResolvedTensor:
        for token, fault in self._device.faults.items():
            if token in batch.input_ids:
                FAULTS[fault](batch)
        busy_s = self._device.step_s + batch.tokens / self._device.tokens_per_s
        time.sleep(busy_s)
        rows = rows_of(batch.input_ids, batch.lengths, self._width)
        finite = np.ones(batch.sequences, bool)
        return ResolvedTensor(StepOutput(rows, finite, {"infer": busy_s}))

    def after_step(self) -> None:
        pass

    def idle(self) -> bool:
        return False

    def stats(self) -> DeviceStats | None:
        return None

    def close(self) -> None:
        """There is nothing to free."""
