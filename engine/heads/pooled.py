"""One row for each sequence or span: a vector for `embed`, a logit for `score`."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from checkpoint.spec import Pooling
from engine.heads.head import Answer, Rows
from engine.modules import Layer
from engine.packing import Packed
from engine.pooling import pool


@dataclass(frozen=True, eq=False)
class PooledHead:
    """Pooling, then layers in float32 whatever the encoder computes in: they see B rows, not T."""

    pooling: Pooling
    layers: Sequence[Layer]

    def compute(self, hidden: Tensor, packed: Packed) -> Tensor:
        """[T, H] -> [B, D] in the packed order; [S, D] in the batch's where it has spans."""
        rows = pool(hidden, packed, self.pooling)
        for layer in self.layers:
            rows = layer(rows)
        return rows

    def collect(self, rows: Rows, packed: Packed) -> Answer:
        if packed.spans is None:
            return Answer(packed.restore(rows))
        return Answer(rows, packed.spans.row_offsets)
