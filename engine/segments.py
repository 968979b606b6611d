"""Rows to pool, as an accelerator knows them: where they begin and how long they are."""

from dataclasses import dataclass

import torch
from torch import Tensor

from checkpoint.spec import Pooling


@dataclass(frozen=True, eq=False, slots=True)
class Segments:
    """S pieces of sequences; an unused one has length 0 and gives a row of zeros."""

    starts: Tensor  # [S] int32: the packed token that each begins with
    lengths: Tensor  # [S] int32
    positions: Tensor  # [S] int32: the place of its first token in its sequence


def pool_segments(hidden: Tensor, segments: Segments, pooling: Pooling) -> Tensor:
    """[T, H] of any dtype -> [S, H] float32. The shapes alone decide what is computed."""
    starts, lengths = segments.starts.long()[:, None], segments.lengths.long()[:, None]  # [S, 1]
    used = lengths > 0
    if pooling in ("cls", "last_token"):
        place = starts if pooling == "cls" else starts + lengths - 1
        rows = hidden[place[:, 0].clamp(0, hidden.size(0) - 1)].float()
        return torch.where(used, rows, 0)
    tokens = torch.arange(hidden.size(0), device=hidden.device)[None]  # [1, T]
    inside = (tokens >= starts) & (tokens < starts + lengths)  # [S, T]
    if pooling == "max":
        rows = torch.stack(
            [hidden.masked_fill(~mask[:, None], -torch.inf).amax(0) for mask in inside]
        )
        return torch.where(used, rows.float(), 0)
    weights = inside.float()
    if pooling == "weighted_mean":
        weights = weights * (segments.positions[:, None] + tokens - starts + 1)
    finite = hidden.isfinite().all(1)  # [T]
    rows = weights @ torch.where(finite[:, None], hidden.float(), 0)
    # In a product 0 · NaN is NaN: a token that is no number would spoil the rows of all.
    rows = rows.masked_fill((inside & ~finite).any(1, keepdim=True), torch.nan)
    if pooling == "mean_sqrt_len":
        return rows / lengths.clamp(min=1) ** 0.5
    return rows / weights.sum(1, keepdim=True).clamp(min=1)
