"""Random hidden states in place of an encoder's, so that a head can be tested on its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.batch import Batch, Kind
from engine.heads.head import Answer, Backbone, Head
from engine.join import JoinNorms, PlainJoin, Unjoined
from engine.kernels import plain_kernels
from engine.packing import Layout, Packed, pack
from engine.weights import Weights

VOCABULARY = 97
WIDTH = 24
PADDED = 3  # dummy tokens behind those of the batch


@dataclass(frozen=True, eq=False)
class HiddenStates:
    """Those of a batch: `sequences` holds [tokens, H] of each, in its order."""

    batch: Batch
    sequences: Sequence[Tensor]

    @classmethod
    def random(
        cls, lengths: Sequence[int], kind: Kind = "embed", spans: np.ndarray | None = None
    ) -> "HiddenStates":
        random = np.random.default_rng(sum(lengths))
        states = [torch.tensor(random.normal(size=(n, WIDTH))).float() for n in lengths]
        ids = random.integers(0, VOCABULARY, sum(lengths)).astype(np.int32)
        return cls(Batch(kind, ids, np.array(lengths, np.int32), spans=spans), states)

    @property
    def ids(self) -> list[np.ndarray]:
        return np.split(self.batch.input_ids, np.cumsum(self.batch.lengths)[:-1])

    def packed(self, batch: Batch) -> tuple[Tensor, Packed, Layout]:
        """As an encoder gives them. What reads the dummy tail turns into NaN."""
        packed, layout = pack(batch, lambda tokens: tokens + PADDED)
        assert layout.order is not None
        tail = torch.full((PADDED, WIDTH), torch.nan)
        return torch.cat([*(self.sequences[i] for i in layout.order), tail]), packed, layout

    def answered(self, head: Head, dtype: torch.dtype = torch.float32) -> Answer:
        hidden, packed, layout = self.packed(head.arrange(self.batch))
        hidden = hidden.to(dtype)
        last = Unjoined(torch.zeros_like(hidden), hidden, PlainJoin(JoinNorms()))
        rows = head.compute(last, packed)
        assert rows.dtype == torch.float32
        return head.collect(rows.numpy(), layout)

    def expected(self, row: Callable[[Tensor], Tensor]) -> np.ndarray:
        """`row` of each sequence's states in float64, one below the other."""
        return torch.stack([row(states.double()) for states in self.sequences]).numpy()


def backbone(
    directory: Path,
    tensors: Mapping[str, Tensor],
    config: Mapping[str, Any] | None = None,
    dtype: torch.dtype = torch.float32,
) -> Backbone:
    """One whose weights are these."""
    save_file(dict(tensors), directory / "model.safetensors")
    weights = Weights([directory / "model.safetensors"])
    return Backbone(config or {}, weights, plain_kernels(dtype), WIDTH)


def random_tensors(**shapes: tuple[int, ...]) -> dict[str, Tensor]:
    """By names with `__` in place of a dot. Large, so that none can be left out unnoticed."""
    generator = torch.Generator().manual_seed(7)
    return {
        name.replace("__", "."): torch.randn(shape, generator=generator) * 0.3
        for name, shape in shapes.items()
    }
