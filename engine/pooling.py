"""Hidden states to one row a sequence."""

import torch
from torch import Tensor

from checkpoint.spec import Pooling
from engine.packing import Packed


def pool(hidden: Tensor, packed: Packed, pooling: Pooling) -> Tensor:
    """[T, H] of any dtype -> [B, H] float32, in the packed order."""
    rows: list[Tensor] = []
    start = 0
    for sequences, tokens in packed.groups:
        group = hidden[start : start + sequences * tokens].view(sequences, tokens, -1)
        rows.append(_pool_group(group, pooling))
        start += sequences * tokens
    return torch.cat(rows)


def _pool_group(
    group: Tensor, pooling: Pooling
) -> Tensor:  # [sequences, tokens, H] -> [sequences, H]
    if pooling == "cls":
        return group[:, 0].float()
    if pooling == "mean":
        return group.mean(1, dtype=torch.float32)
    return group[:, -1].float()
