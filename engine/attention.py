"""Ragged attention: each sequence attends to itself, none is padded."""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.packing import Packed


class Attention(Protocol):
    name: str  # as the runtime reports it

    def __call__(self, qkv: Tensor, packed: Packed) -> Tensor:
        """[T, 3H], a token's queries, keys and values side by side, -> [T, H]."""
        ...


class SequenceAttention:
    """The reference: one sequence after another."""

    name = "sequence"

    def __init__(self, heads: int, head_dim: int) -> None:
        self._shape = (3, heads, head_dim)

    def __call__(self, qkv: Tensor, packed: Packed) -> Tensor:
        q, k, v = qkv.view(-1, *self._shape).permute(1, 2, 0, 3)  # [heads, T, head_dim] each
        attended = torch.empty_like(v)
        start = 0
        for sequences, tokens in packed.groups:
            for _ in range(sequences):
                rows = slice(start, start + tokens)
                attended[:, rows] = F.scaled_dot_product_attention(
                    q[:, rows], k[:, rows], v[:, rows]
                )
                start += tokens
        attended[:, start:] = v[:, start:]  # a dummy token attends to itself alone
        return attended.transpose(0, 1).flatten(1)  # [T, H]
