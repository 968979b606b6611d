"""Residual addition and every norm around it, in one kernel."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.join import JoinNorms
from engine.triton_kernels.norm import (
    load_row,
    norm_arguments,
    normed_row,
    row_block,
    store_row,
)


def join(branch: Tensor, hidden: Tensor, norms: JoinNorms) -> tuple[Tensor, Tensor]:
    """[T, H] each -> the new hidden states, in the memory of `branch`, and what is read next.

    Without a norm for what is read next the two are one tensor. That norm sees the hidden states
    before they are rounded to their dtype.
    """
    tokens, width = hidden.shape
    entered = None
    if norms.next is not None:
        entered = torch.empty(tokens, width, dtype=hidden.dtype, device=hidden.device)
    block, warps = row_block(width)
    _join_kernel[(tokens,)](
        branch,
        hidden,
        entered,
        branch.stride(0),
        hidden.stride(0),
        *join_arguments(norms),
        H=width,
        BLOCK=block,
        num_warps=warps,
        enable_fp_fusion=True,
    )
    return branch, branch if entered is None else entered


def join_arguments(norms: JoinNorms) -> tuple[Tensor | float | bool | None, ...]:
    """What a kernel is given of the norms: of each weight, bias and ε, then which are RMS."""
    behind, total, following = norms.behind, norms.sum, norms.next
    return (
        *norm_arguments(behind),
        *norm_arguments(total),
        *norm_arguments(following),
        behind is not None and behind.rms,
        total is not None and total.rms,
        following is not None and following.rms,
    )


@triton.jit
def _join_kernel(
    branch,
    hidden,
    entered,
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
    H: tl.constexpr,
    BLOCK: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    branch += token * branch_stride
    x = load_row(branch, columns, H)
    x = normed_row(x, columns, behind_weight, behind_bias, behind_eps, H, BEHIND_RMS)
    x += load_row(hidden + token * hidden_stride, columns, H)
    x = normed_row(x, columns, sum_weight, sum_bias, sum_eps, H, SUM_RMS)
    store_row(branch, columns, x, H)
    if entered is not None:
        x = normed_row(x, columns, next_weight, next_bias, next_eps, H, NEXT_RMS)
        store_row(entered + token * H, columns, x, H)
