"""Packed token ids to hidden states."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from engine.attention import AttentionSpec
from engine.block import Block
from engine.join import Unjoined
from engine.norm import Norm
from engine.packing import Packed
from engine.rotary import RotaryTable


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Words, what is added for positions and token types, and a norm where the family has one."""

    words: Tensor  # [vocabulary, H]
    max_positions: int  # the longest sequence
    types: int = 0  # token types told apart; 0: they are ignored
    positions: Tensor | None = None  # [types · max_positions, H]: position + type, summed at load
    type_rows: Tensor | None = None  # [types, H], of a model whose positions are rotations
    norm: Norm | None = None

    def __call__(self, packed: Packed) -> Tensor:  # [T, H]
        hidden = F.embedding(packed.input_ids, self.words)
        types = packed.type_ids if self.types else None
        if self.positions is not None:
            index = packed.position_ids
            if types is not None:
                index = index + types * self.max_positions
            hidden.add_(F.embedding(index, self.positions))
        elif self.type_rows is not None:
            rows = self.type_rows
            hidden.add_(rows[0] if types is None else F.embedding(types, rows))
        return hidden if self.norm is None else self.norm(hidden)


# Hidden states [T, H], and what the first attention reads of them -> what the last layer leaves
RunBlocks = Callable[[Tensor, Tensor, Packed], Unjoined]


@dataclass(frozen=True, eq=False)
class Encoder:
    embeddings: Embeddings
    embed: Callable[[Packed], Tensor]  # [T, H]
    enter: Callable[[Tensor], Tensor] | None  # the norm before the first attention
    blocks: Sequence[Block]  # at least one
    layers: RunBlocks | None = None  # all blocks at once, where kernels can

    def __call__(self, packed: Packed) -> Unjoined:
        hidden = self.embed(packed)
        entered = hidden if self.enter is None else self.enter(hidden)
        if self.layers is not None:
            return self.layers(hidden, entered, packed)
        rotations = {table: table.at(packed.position_ids) for table in self._tables()}
        for block in self.blocks:
            table = block.attention.rotary
            rotation = None if table is None else rotations[table]
            last = block(hidden, entered, packed, rotation)
            if block is not self.blocks[-1]:
                hidden, entered = last.join(last.branch, last.hidden)
        return last

    @property
    def attention_specs(self) -> tuple[AttentionSpec, ...]:
        """Of all layers, each once."""
        return tuple(dict.fromkeys(block.attention.attend.spec for block in self.blocks))

    def _tables(self) -> set[RotaryTable]:
        tables = (block.attention.rotary for block in self.blocks)
        return {table for table in tables if table is not None}
