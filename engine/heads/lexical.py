"""bge-m3's lexical weights: how much each token of a text matters (arXiv:2402.03216)."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.batch import Batch
from engine.heads.entries import entries
from engine.heads.head import Answer, Backbone, Rows, RowsOf
from engine.join import Unjoined
from engine.linear import Linear, PlainLinear
from engine.packing import Layout, Packed
from engine.weights import Weights

# fairseq's vocabularies, and so XLM-R's, begin with <s>, <pad>, </s>, <unk>.
_SPECIAL_IDS = np.arange(4, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class LexicalHead:
    """Of each id the largest weight that one of its tokens has; special tokens have none."""

    linear: Linear
    rows: ClassVar[RowsOf] = "token"

    def arrange(self, batch: Batch) -> Batch:
        return batch

    def compute(self, last: Unjoined, packed: Packed) -> Tensor:
        """[tokens, 1]"""
        return self.linear(last.states()[: packed.tokens].float())

    def collect(self, rows: Rows, layout: Layout) -> Answer:
        batch = layout.batch
        weights = layout.restore_tokens(rows)[:, 0]
        sequences = np.repeat(np.arange(batch.sequences), batch.lengths)
        # != 0 and not > 0: a weight that is no number is kept, so that it is noticed.
        kept = np.flatnonzero((weights != 0) & ~np.isin(batch.input_ids, _SPECIAL_IDS))
        return _largest(sequences[kept], batch.input_ids[kept], weights[kept], batch.sequences)


def load_lexical_head(backbone: Backbone, path: Path) -> LexicalHead:
    """`path` holds a `weight` [1, H] and a `bias` [1]."""
    weights = Weights([path], place=backbone.kernels.place)
    linear = PlainLinear(
        weights.take("weight", 1, backbone.width), weights.take("bias", 1), torch.relu
    )
    weights.finish()
    return LexicalHead(linear)


def _largest(
    sequences: NDArray[np.intp], ids: NDArray[np.int32], weights: Rows, batch_sequences: int
) -> Answer:
    """One entry for each id of a sequence, of all its tokens' weights."""
    order = np.lexsort((ids, sequences))
    sequences, ids, weights = sequences[order], ids[order], weights[order]
    changes = (np.diff(sequences) != 0) | (np.diff(ids) != 0)
    first = np.flatnonzero(np.concatenate([[True], changes]))[: ids.size]
    if not first.size:  # reduceat wants something to reduce
        return entries(sequences, ids, weights, batch_sequences)
    return entries(
        sequences[first], ids[first], np.maximum.reduceat(weights, first), batch_sequences
    )
