"""Biases of attention by distance, in buckets that widen with it (T5, arXiv:1910.10683)."""

import math

import torch
from torch import Tensor

# From here on all distances are in the last bucket.
_MAX_DISTANCE = 128


def bias_by_distance(table: Tensor) -> Tensor:
    """[buckets, heads] -> [heads, 2 · _MAX_DISTANCE + 1]: from key far before to key far behind."""
    distance = torch.arange(-_MAX_DISTANCE, _MAX_DISTANCE + 1)  # key - query
    return table[_bucket(distance, table.size(0))].T.contiguous()


def _bucket(distance: Tensor, buckets: int) -> Tensor:
    """Half of the buckets are for keys behind the query; of each half, half for one distance."""
    side = buckets // 2
    exact = side // 2
    away = distance.abs()
    steps = torch.log(away.clamp(min=1).float() / exact) / math.log(_MAX_DISTANCE / exact)
    coarse = (exact + (steps * (side - exact)).long()).clamp(max=side - 1)
    return torch.where(distance > 0, side, 0) + torch.where(away < exact, away, coarse)
