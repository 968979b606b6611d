"""What every head does, whatever it answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from engine.batch import Batch
from engine.join import Unjoined
from engine.kernels import Kernels
from engine.packing import Layout, Packed
from engine.weights import Weights

Rows = NDArray[np.float32]
RowsOf = Literal["segment", "sequence", "token"]  # what `compute` gives a row


@dataclass(frozen=True, eq=False)
class Answer:
    """The rows of each sequence, in the order of the batch."""

    rows: Rows  # [N, D]
    row_offsets: NDArray[np.int32] | None = None  # [B + 1]; None: one row a sequence
    indices: NDArray[np.int32] | None = None  # [N]: the token id of each weight of sparse

    @property
    def finite(self) -> NDArray[np.bool_]:
        """[B]: whether all rows of the sequence are."""
        finite = np.asarray(np.isfinite(self.rows).all(axis=1))
        if self.row_offsets is None:
            return finite
        faults = np.concatenate([[0], np.cumsum(~finite)])[self.row_offsets]
        return np.asarray(faults[1:] == faults[:-1])


class Head(Protocol):
    rows: ClassVar[RowsOf]

    def arrange(self, batch: Batch) -> Batch:
        """What to run for a batch: the same tokens, perhaps with other spans."""
        ...

    def compute(self, last: Unjoined, packed: Packed) -> Tensor:
        """What the last layer leaves -> float32 rows, in the packed order. Runs on the device."""
        ...

    def collect(self, rows: Rows, layout: Layout) -> Answer:
        """What `compute` gave, brought to the order of the batch. Runs on the host."""
        ...


@dataclass(frozen=True, eq=False)
class Backbone:
    """The transformer that a head is loaded for."""

    config: Mapping[str, Any]  # config.json
    weights: Weights  # what is left of them
    kernels: Kernels
    width: int  # of the hidden states


LoadHead = Callable[[Backbone], Head]
