"""Hidden states to one row for each sequence, or for each of its spans. In float32 throughout."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from checkpoint.spec import Pooling
from engine.packing import Packed, Spans


def pool(hidden: Tensor, packed: Packed, pooling: Pooling) -> Tensor:
    """[T, H] of any dtype -> [B, H] float32, in the packed order.

    With spans: [S, H], in the batch's. A span is pooled as if its tokens were the sequence, but its
    weights in a weighted mean are those of their positions in the sequence.
    """
    pool_group = POOLINGS[pooling]
    if packed.spans is not None:
        return _pool_spans(hidden, packed.spans, pool_group)
    rows: list[Tensor] = []
    start = 0
    for sequences, tokens in packed.groups:
        group = hidden[start : start + sequences * tokens].view(sequences, tokens, -1)
        rows.append(pool_group(group, torch.zeros(sequences, 1)))
        start += sequences * tokens
    return torch.cat(rows)


# [n, tokens, H], and how many tokens come before these [n, 1], -> [n, H]
_PoolGroup = Callable[[Tensor, Tensor], Tensor]


def _pool_spans(hidden: Tensor, spans: Spans, pool_group: _PoolGroup) -> Tensor:
    """All spans of one length at once."""
    rows = torch.empty(spans.lengths.size, hidden.size(1))
    for tokens in np.unique(spans.lengths).tolist():
        chosen = np.flatnonzero(spans.lengths == tokens)
        index = torch.from_numpy(spans.starts[chosen, None] + np.arange(tokens))  # [n, tokens]
        before = torch.from_numpy(spans.positions[chosen, None])
        rows[torch.from_numpy(chosen)] = pool_group(hidden[index], before)
    return rows


def _first(group: Tensor, _: Tensor) -> Tensor:
    return group[:, 0].float()


def _last(group: Tensor, _: Tensor) -> Tensor:
    return group[:, -1].float()


def _max(group: Tensor, _: Tensor) -> Tensor:
    return group.amax(1).float()


def _mean(group: Tensor, _: Tensor) -> Tensor:
    return group.mean(1, dtype=torch.float32)


def _mean_sqrt_len(group: Tensor, _: Tensor) -> Tensor:
    """The sum over the root of the length."""
    return group.sum(1, dtype=torch.float32) / group.size(1) ** 0.5


def _weighted_mean(group: Tensor, before: Tensor) -> Tensor:
    """Weights 1, 2, 3, … from the start of the sequence (arXiv:2202.08904)."""
    weights = before + torch.arange(1, group.size(1) + 1, dtype=torch.float32)  # [n, tokens]
    weights = weights / weights.sum(1, keepdim=True)
    return torch.bmm(weights[:, None], group.float())[:, 0]


POOLINGS: Mapping[Pooling, _PoolGroup] = {
    "cls": _first,
    "mean": _mean,
    "max": _max,
    "mean_sqrt_len": _mean_sqrt_len,
    "weighted_mean": _weighted_mean,
    "last_token": _last,
}
