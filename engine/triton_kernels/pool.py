"""The last addition and norm, and the pooling of segments."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from checkpoint.spec import Pooling
from engine.join import JoinNorms
from engine.segments import Segments
from engine.triton_kernels.join import join, join_arguments
from engine.triton_kernels.norm import load_row, normed_row, row_block, store_row

_ROWS, _COLUMNS = 128, 64  # tokens and columns that a program holds: 128 bytes of a token


def pool(
    branch: Tensor | None,
    hidden: Tensor,
    norms: JoinNorms,
    segments: Segments,
    pooling: Pooling,
) -> Tensor:
    """What the last layer leaves, [T, H] each -> a row for each segment, [S, H] float32.

    An unused segment gives zeros. Without a branch `hidden` is pooled as it is. Where pooling reads
    one token of a segment no other is normed; else `branch` is overwritten.
    """
    if pooling in ("cls", "last_token"):
        return _pool_ends(branch, hidden, norms, segments, pooling == "last_token")
    if branch is not None:
        # Joined on its own: a program that pools would have to norm token after token, alone.
        _, hidden = join(branch, hidden, norms)
    return _pool_all(hidden, segments, pooling)


def _pool_ends(
    branch: Tensor | None, hidden: Tensor, norms: JoinNorms, segments: Segments, last: bool
) -> Tensor:
    width, count = hidden.size(1), segments.starts.size(0)
    rows = torch.empty(count, width, dtype=torch.float32, device=hidden.device)
    block, warps = row_block(width)
    _pool_ends_kernel[(count,)](
        branch,
        hidden,
        rows,
        segments.starts,
        segments.lengths,
        0 if branch is None else branch.stride(0),
        hidden.stride(0),
        *join_arguments(JoinNorms() if branch is None else norms),
        LAST=last,
        H=width,
        BLOCK=block,
        num_warps=warps,
        enable_fp_fusion=True,
    )
    return rows


def _pool_all(hidden: Tensor, segments: Segments, pooling: Pooling) -> Tensor:
    width, count = hidden.size(1), segments.starts.size(0)
    rows = torch.empty(count, width, dtype=torch.float32, device=hidden.device)
    _pool_all_kernel[(count, -(-width // _COLUMNS))](
        hidden,
        rows,
        segments.starts,
        segments.lengths,
        segments.positions,
        hidden.stride(0),
        POOLING=pooling,
        H=width,
        ROWS=_ROWS,
        COLUMNS=_COLUMNS,
        num_warps=8,
        enable_fp_fusion=True,
    )
    return rows


# Views into one buffer: how they are aligned differs from step to step.
@triton.jit(do_not_specialize_on_alignment=["starts", "lengths"])
def _pool_ends_kernel(
    branch,
    hidden,
    rows,
    starts,
    lengths,
    branch_stride,
    hidden_stride,
    behind_weight,
    behind_bias,
    behind_eps,
    sum_weight,
    sum_bias,
    sum_eps,
    next_weight,
    next_bias,
    next_eps,
    BEHIND_RMS: tl.constexpr,
    SUM_RMS: tl.constexpr,
    NEXT_RMS: tl.constexpr,
    LAST: tl.constexpr,
    H: tl.constexpr,
    BLOCK: tl.constexpr,
):
    segment = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    length = tl.load(lengths + segment)
    x = tl.zeros([BLOCK], tl.float32)
    if length > 0:
        token = tl.load(starts + segment).to(tl.int64)
        if LAST:
            token += length - 1
        x = load_row(hidden + token * hidden_stride, columns, H)
        if branch is not None:
            added = load_row(branch + token * branch_stride, columns, H)
            x += normed_row(added, columns, behind_weight, behind_bias, behind_eps, H, BEHIND_RMS)
        x = normed_row(x, columns, sum_weight, sum_bias, sum_eps, H, SUM_RMS)
        x = normed_row(x, columns, next_weight, next_bias, next_eps, H, NEXT_RMS)
    store_row(rows + segment * H, columns, x, H)


@triton.jit(do_not_specialize_on_alignment=["starts", "lengths", "positions"])
def _pool_all_kernel(
    hidden,
    rows,
    starts,
    lengths,
    positions,
    hidden_stride,
    POOLING: tl.constexpr,
    H: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """A program adds up its columns of one segment in an order that is the segment's alone."""
    segment = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < H
    length = tl.load(lengths + segment)
    hidden += tl.load(starts + segment).to(tl.int64) * hidden_stride
    position = tl.load(positions + segment)
    least: tl.constexpr = float("-inf") if POOLING == "max" else 0.0
    pooled = tl.full([ROWS, COLUMNS], least, tl.float32)
    for start in range(0, length, ROWS):
        tokens = start + tl.arange(0, ROWS)
        places = hidden + tokens.to(tl.int64)[:, None] * hidden_stride + columns[None, :]
        mask = (tokens < length)[:, None] & inside[None, :]
        x = tl.load(places, mask=mask, other=least).to(tl.float32)
        if POOLING == "max":
            pooled = tl.maximum(pooled, x, propagate_nan=tl.PropagateNan.ALL)
        elif POOLING == "weighted_mean":
            pooled += x * (position + tokens + 1).to(tl.float32)[:, None]
        else:
            pooled += x
    tokens = tl.maximum(length, 1).to(tl.float32)
    if POOLING == "max":
        numbers = pooled == pooled
        row = tl.max(tl.where(numbers, pooled, least), 0)
        # The maximum of a reduction is that of the numbers: one NaN must not pass unseen.
        row = tl.where(tl.min(numbers.to(tl.int32), 0) == 0, float("nan"), row)
        row = tl.where(length > 0, row, 0.0)
    elif POOLING == "mean_sqrt_len":
        row = tl.sum(pooled, 0) / tl.sqrt_rn(tokens)
    elif POOLING == "weighted_mean":
        row = tl.sum(pooled, 0) / (tokens * (position + (tokens + 1) / 2))
    else:
        tl.static_assert(POOLING == "mean", "no such pooling")
        row = tl.sum(pooled, 0) / tokens
    tl.store(rows + segment * H + columns, row, mask=inside)
