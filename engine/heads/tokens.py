"""A vector a token, for late interaction (ColBERT, arXiv:2004.12832)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from engine.batch import Batch
from engine.heads.head import Answer, Backbone, Rows, RowsOf
from engine.join import Unjoined
from engine.linear import PlainLinear
from engine.modules import Layer
from engine.packing import Layout, Packed
from engine.weights import Weights


@dataclass(frozen=True, eq=False)
class TokenHead:
    """Layers over every token. Which of the rows a search compares is its own affair."""

    layers: Sequence[Layer]
    skipped: int = 0  # tokens at the start of each sequence that get no row

    rows: ClassVar[RowsOf] = "token"

    def arrange(self, batch: Batch) -> Batch:
        return batch

    def compute(self, last: Unjoined, packed: Packed) -> Tensor:
        """[tokens, D]"""
        rows = last.states()[: packed.tokens].float()
        for layer in self.layers:
            rows = layer(rows)
        return rows

    def collect(self, rows: Rows, layout: Layout) -> Answer:
        lengths = layout.batch.lengths
        rows = layout.restore_tokens(rows)
        if self.skipped:
            starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
            rows = rows[np.arange(len(rows)) - starts >= self.skipped]
        counts = np.maximum(lengths - self.skipped, 0)
        return Answer(rows, np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))


def load_multi_vector_head(backbone: Backbone, path: Path) -> TokenHead:
    """bge-m3's: a layer over all tokens but the first, normalised (arXiv:2402.03216).

    `path` holds a `weight` [D, H] and a `bias` [D].
    """
    weights = Weights([path], place=backbone.kernels.place)
    weight = weights.take("weight", -1, backbone.width)
    linear = PlainLinear(weight, weights.take("bias", weight.size(0)))
    weights.finish()
    return TokenHead([linear, partial(F.normalize, dim=-1)], skipped=1)
