"""Norms of rows, and what the kernels that end in one share. Statistics are float32."""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.norm import Norm


def normed(x: Tensor, norm: Norm) -> Tensor:
    """[T, H], of which the columns are dense, -> [T, H] in its dtype."""
    tokens, width = x.shape
    out = torch.empty(tokens, width, dtype=x.dtype, device=x.device)
    block, warps = row_block(width)
    _normed_kernel[(tokens,)](
        x,
        out,
        *norm_arguments(norm),
        x.stride(0),
        width,
        norm.rms,
        block,
        num_warps=warps,
        enable_fp_fusion=True,
    )
    return out


def norm_arguments(norm: Norm | None) -> tuple[Tensor | None, Tensor | None, float]:
    """What a kernel is given of a norm; of none, no weight."""
    return (None, None, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)


@cache
def row_block(width: int) -> tuple[int, int]:
    """(columns of a block that holds a row, warps that load it in pieces of 8 a thread).

    One row a program: a batch of one short text has too few rows to share programs among them.
    """
    block = triton.next_power_of_2(width)
    return block, min(max(block // 256, 1), 16)


@triton.jit
def _normed_kernel(
    x, out, weight, bias, eps, x_stride, H: tl.constexpr, RMS: tl.constexpr, BLOCK: tl.constexpr
):
    token = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    row = load_row(x + token * x_stride, columns, H)
    row = normed_row(row, columns, weight, bias, eps, H, RMS)
    store_row(out + token * H, columns, row, H)


@triton.jit
def load_row(row, columns, H: tl.constexpr):
    """In float32; zero beyond the row's H columns, as every function here leaves it."""
    return tl.load(row + columns, mask=columns < H, other=0.0).to(tl.float32)


@triton.jit
def store_row(row, columns, values, H: tl.constexpr):
    tl.store(row + columns, values.to(row.dtype.element_ty), mask=columns < H)


@triton.jit
def normed_row(x, columns, weight, bias, eps, H: tl.constexpr, RMS: tl.constexpr):
    """As a LayerNorm or RmsNorm of that weight [H]; as it is where `weight` is None."""
    if weight is not None:
        if not RMS:
            x = tl.where(columns < H, x - tl.sum(x) / H, 0.0)
        x = x * tl.rsqrt(tl.sum(x * x) / H + eps) * load_row(weight, columns, H)
        if bias is not None:
            x += load_row(bias, columns, H)
    return x
