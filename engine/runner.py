"""What runs a model: on a CPU within `step`, on an accelerator behind it."""

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import torch

from engine.batch import Batch, Kind
from engine.encoder import Encoder
from engine.heads.head import Head
from engine.lazy import DeviceStats, LazyTensor, ResolvedTensor, StepOutput
from engine.packing import Bucket, pack


@dataclass(frozen=True, eq=False)
class Model:
    encoder: Encoder
    heads: Mapping[Kind, Head]


class Runner(Protocol):
    def step(self, batch: Batch) -> LazyTensor: ...

    def after_step(self) -> None:
        """Do what a step leaves to be done, once somebody follows it."""
        ...

    def idle(self) -> bool:
        """Do a piece of what is better done while nobody waits. False: there is nothing left."""
        ...

    def runtime(self) -> Mapping[str, Any]:
        """What computes, JSON-able."""
        ...

    def stats(self) -> DeviceStats | None:
        """None on a CPU."""
        ...

    def close(self) -> None:
        """Remember what the next start should know, and end the threads."""
        ...


class CpuRunner:
    def __init__(self, model: Model, bucket: Bucket) -> None:
        self._model, self._bucket = model, bucket

    def step(self, batch: Batch) -> LazyTensor:
        started_s = perf_counter()
        head = self._model.heads[batch.kind]
        with torch.inference_mode():
            packed, layout = pack(head.arrange(batch), self._bucket)
            packed_s = perf_counter()
            last = self._model.encoder(packed)
            answer = head.collect(head.compute(last, packed).numpy(), layout)
        return ResolvedTensor(
            StepOutput(
                rows=answer.rows,
                finite=answer.finite,
                timings={"pack": packed_s - started_s, "infer": perf_counter() - packed_s},
                padded_tokens=packed.padded_tokens,
                row_offsets=answer.row_offsets,
                indices=answer.indices,
            )
        )

    def after_step(self) -> None:
        pass

    def idle(self) -> bool:
        return False

    def runtime(self) -> Mapping[str, Any]:
        return {"attention": self._model.encoder.blocks[0].attention.attend.name}

    def stats(self) -> DeviceStats | None:
        return None

    def close(self) -> None:
        pass
