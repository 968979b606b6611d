"""Positions as rotations of queries and keys (RoFormer, arXiv:2104.09864)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, eq=False, slots=True)
class Rotation:
    """By the angles of T tokens. The halves of a head turn together, not its neighbours."""

    cos: Tensor  # [T, 1, D / 2]
    sin: Tensor

    def turn_(self, heads: Tensor) -> None:
        """[T, heads, D] in place: fresh memory of that size takes longer than the products."""
        half = self.cos.size(-1)
        left, right = heads[..., :half], heads[..., half:]
        crossed = left * self.sin
        left.mul_(self.cos).addcmul_(right, self.sin, value=-1)
        right.mul_(self.cos).add_(crossed)


class RotaryTable:
    """Cosines and sines of every position, computed once; layers of one kind share it."""

    def __init__(self, frequencies: Tensor, positions: int, dtype: torch.dtype) -> None:
        """`frequencies` [D / 2]: radians a token, in float32 as models are trained with."""
        angles = torch.arange(positions, dtype=torch.float32)[:, None] * frequencies
        self._table = torch.cat([angles.cos(), angles.sin()], -1).to(dtype)  # [positions, D]

    def at(self, position_ids: Tensor) -> Rotation:
        """The rotation of these tokens: gathered once a step, not once a layer."""
        cos, sin = F.embedding(position_ids, self._table)[:, None].chunk(2, -1)
        return Rotation(cos, sin)
