"""Norm and rotation of queries and keys, in place, in one kernel."""

from functools import cache

import triton
import triton.language as tl
from torch import Tensor

from engine.norm import Norm


def turn_(
    qkv: Tensor,
    turned_heads: int,
    norm: Norm | None,
    table: Tensor | None,
    position_ids: Tensor,
) -> None:
    """Queries and keys are the first `turned_heads` of qkv [T, heads, D].

    `norm` is an RmsNorm with a weight [turned_heads, D]; `table` [positions, D] float32 holds the
    cosines of a position, then its sines.
    """
    if norm is None and table is None:
        return
    tokens, _, head_dim = qkv.shape
    heads, half_block = _block(turned_heads, head_dim // 2)
    _turn_kernel[(tokens, -(-turned_heads // heads))](
        qkv,
        None if norm is None else norm.weight,
        0.0 if norm is None else norm.eps,
        table,
        position_ids,
        qkv.stride(0),
        qkv.stride(1),
        turned_heads,
        D=head_dim,
        HEADS=heads,
        HALF_BLOCK=half_block,
        num_warps=min(max(heads * half_block // 256, 1), 4),
        enable_fp_fusion=True,
    )


@cache
def _block(turned_heads: int, half: int) -> tuple[int, int]:
    """(heads, pairs of a head): powers of two with at most 1,024 pairs, of which a thread has 8.

    Fewer heads where they divide what there is, so that none of a program's are idle.
    """
    half_block = triton.next_power_of_2(half)
    heads = min(triton.next_power_of_2(turned_heads), 1024 // half_block)
    while heads > 4 and turned_heads % heads:
        heads //= 2
    return heads, half_block


@triton.jit(do_not_specialize_on_alignment=["position_ids"])  # a view into a step's buffer
def _turn_kernel(
    qkv,
    weight,
    eps,
    table,
    position_ids,
    token_stride,
    head_stride,
    TURNED_HEADS: tl.constexpr,
    D: tl.constexpr,
    HEADS: tl.constexpr,
    HALF_BLOCK: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    heads = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    columns = tl.arange(0, HALF_BLOCK)[None, :]
    inside = (heads < TURNED_HEADS) & (columns < D // 2)
    places = qkv + token * token_stride + heads * head_stride + columns
    left = tl.load(places, mask=inside, other=0.0).to(tl.float32)  # [HEADS, HALF_BLOCK]
    right = tl.load(places + D // 2, mask=inside, other=0.0).to(tl.float32)
    if weight is not None:
        weights = weight + heads * D + columns
        scale = tl.rsqrt((tl.sum(left * left, 1) + tl.sum(right * right, 1)) / D + eps)[:, None]
        left *= scale * tl.load(weights, mask=inside, other=0.0)
        right *= scale * tl.load(weights + D // 2, mask=inside, other=0.0)
    if table is not None:
        angles = table + tl.load(position_ids + token).to(tl.int64) * D + columns
        cos = tl.load(angles, mask=columns < D // 2, other=0.0)  # [1, HALF_BLOCK]
        sin = tl.load(angles + D // 2, mask=columns < D // 2, other=0.0)
        left, right = left * cos - right * sin, right * cos + left * sin
    tl.store(places, left.to(qkv.dtype.element_ty), mask=inside)
    tl.store(places + D // 2, right.to(qkv.dtype.element_ty), mask=inside)
