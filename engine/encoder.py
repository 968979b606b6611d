"""Packed token ids to hidden states."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from engine.block import Block, LayerNorm
from engine.packing import Packed


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Word + position + token type, normalised."""

    words: Tensor  # [vocabulary, H]
    positions: Tensor  # [types · positions, H]: position + type, added once at load
    max_positions: int  # the longest sequence the table has rows for
    norm: LayerNorm

    @property
    def types(self) -> int:
        return self.positions.size(0) // self.max_positions

    def __call__(self, packed: Packed) -> Tensor:  # [T, H]
        index = packed.position_ids
        if packed.type_ids is not None:
            index = index + packed.type_ids * self.max_positions
        return self.norm(
            F.embedding(packed.input_ids, self.words).add_(F.embedding(index, self.positions))
        )


@dataclass(frozen=True, eq=False)
class Encoder:
    embeddings: Embeddings
    blocks: Sequence[Block]

    def __call__(self, packed: Packed) -> Tensor:  # [T, H]
        hidden = self.embeddings(packed)
        for block in self.blocks:
            hidden = block(hidden, packed)
        return hidden
