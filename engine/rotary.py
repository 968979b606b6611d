"""Positions as rotations of queries and keys (RoFormer, arXiv:2104.09864)."""

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.norm import Norm


class Rotation(Protocol):
    def turn_(self, heads: Tensor, norm: Norm | None) -> None:
        """Queries and keys [T, heads, D], normed before if need be, in place."""
        ...


class RotaryTable(Protocol):
    """Cosines and sines of every position, computed once; layers of one kind share it."""

    def at(self, position_ids: Tensor) -> Rotation:
        """The rotation of these tokens, for all layers of a step."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class PlainRotation:
    """By the angles of T tokens. The halves of a head turn together, not its neighbours."""

    cos: Tensor  # [T, 1, D / 2]
    sin: Tensor

    def turn_(self, heads: Tensor, norm: Norm | None) -> None:
        """In place because fresh memory of that size takes longer than the products."""
        if norm is not None:
            heads.copy_(norm(heads))
        half = self.cos.size(-1)
        left, right = heads[..., :half], heads[..., half:]
        crossed = left * self.sin
        left.mul_(self.cos).addcmul_(right, self.sin, value=-1)
        right.mul_(self.cos).add_(crossed)


class PlainRotaryTable:
    """The reference: gathered once a step, not once a layer."""

    def __init__(self, table: Tensor) -> None:
        self._table = table  # [positions, D]

    def at(self, position_ids: Tensor) -> PlainRotation:
        cos, sin = F.embedding(position_ids, self._table)[:, None].chunk(2, -1)
        return PlainRotation(cos, sin)


def rotary_table(frequencies: Tensor, positions: int) -> Tensor:
    """Cosines, then sines [positions, D] float32 of `frequencies` [D / 2], in radians a token."""
    angles = torch.arange(positions, dtype=torch.float32)[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], -1)
