"""One row for each sequence or span: a vector for `embed`, a logit for `score`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from checkpoint.spec import Pooling
from engine.batch import Batch
from engine.heads.head import Answer, Rows, RowsOf
from engine.join import Unjoined
from engine.kernels import Pool
from engine.modules import Layer
from engine.packing import Layout, Packed


@dataclass(frozen=True, eq=False)
class PooledHead:
    """Pooling, then layers in float32 whatever the encoder computes in: they see B rows, not T."""

    pool: Pool
    pooling: Pooling
    layers: Sequence[Layer]
    rows: ClassVar[RowsOf] = "segment"

    def arrange(self, batch: Batch) -> Batch:
        return batch

    def compute(self, last: Unjoined, packed: Packed) -> Tensor:
        """[B, D] in the packed order; [S, D] in the batch's where it has spans."""
        rows = self.pool(last, packed, self.pooling)
        for layer in self.layers:
            rows = layer(rows)
        return rows

    def collect(self, rows: Rows, layout: Layout) -> Answer:
        if layout.row_offsets is None:
            return Answer(layout.restore(rows))
        return Answer(rows, layout.row_offsets)
