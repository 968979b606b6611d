"""Ragged attention after FlashAttention (arXiv:2205.14135, arXiv:2307.08691).

A program computes one tile of a sequence's rows for one head. The grid has a program for every tile
that the padded sizes allow, so that a captured graph serves any lengths; a tile that is not needed
costs one early exit.
"""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from engine.attention import AttentionSpec
from engine.triton_kernels.tuning import Tuning

_LOG2_E = tl.constexpr(1.4426950408889634)
_UNSEEN = tl.constexpr(float("-inf"))
# Below every score, yet finite: the difference of two peaks is no NaN where nothing was seen yet.
_NO_PEAK = tl.constexpr(-1e30)


@dataclass(frozen=True, eq=False, slots=True)
class TiledSequences:
    """Sequences one after another, and how `tiles.fill_tiles` cuts them."""

    cu_seqlens: Tensor  # [S + 2] int32
    tiles: Tensor  # [N, 2] int32, of tuning.block_m rows


def ragged_attention(
    qkv: Tensor, out: Tensor, sequences: TiledSequences, spec: AttentionSpec, tuning: Tuning
) -> None:
    """softmax(scale · q · kᵀ + what the spec adds) · v, each sequence for itself.

    `qkv` [T, heads + 2 · kv_heads, D], `out` [T, heads · D], both with adjacent columns. Rows of no
    sequence are neither read nor written. Blocks of keys begin at multiples of `block_n` in their
    sequence, so that a row's result is the same in any company.
    """
    _attend[sequences.tiles.size(0), spec.heads](
        qkv,
        out,
        sequences.cu_seqlens,
        sequences.tiles,
        spec.bias,
        spec.alibi,
        spec.scale,
        HEADS=spec.heads,
        KV_HEADS=spec.kv_heads,
        HEAD_DIM=spec.head_dim,
        QKV_STRIDE=qkv.stride(0),
        OUT_STRIDE=out.stride(0),
        COLUMNS=max(16, triton.next_power_of_2(spec.head_dim)),
        CAUSAL=spec.causal,
        WINDOW=-1 if spec.window is None else spec.window,
        NARROW=spec.window is not None and spec.window < tuning.block_m + tuning.block_n,
        REACH=0 if spec.bias is None else spec.bias.size(1) // 2,
        BLOCK_M=tuning.block_m,
        BLOCK_N=tuning.block_n,
        num_warps=tuning.warps,
        num_stages=tuning.stages,
        enable_fp_fusion=True,
    )


# The addresses vary with the configuration, the kernel must not.
@triton.jit(do_not_specialize_on_alignment=["cu_seqlens", "tiles"])
def _attend(
    qkv,
    out,
    cu_seqlens,
    tiles,
    bias,  # [HEADS, 2 · REACH + 1], or None
    alibi,  # [HEADS], or None
    scale,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    QKV_STRIDE: tl.constexpr,  # known, a thread's addresses differ by constants: 40 registers less
    OUT_STRIDE: tl.constexpr,
    COLUMNS: tl.constexpr,  # the power of two that HEAD_DIM fits in
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,  # -1: none
    NARROW: tl.constexpr,  # so that nearly every block of keys crosses an edge of the window
    REACH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head = tl.program_id(1)
    tile = tiles + 2 * tl.program_id(0)
    sequence = tl.load(tile)
    if sequence < 0:
        return
    row = tl.load(tile + 1)
    start = tl.load(cu_seqlens + sequence)
    tokens = tl.load(cu_seqlens + sequence + 1) - start
    end = tl.minimum(row + BLOCK_M, tokens)

    first_q = qkv + (start + row).to(tl.int64) * QKV_STRIDE + head * HEAD_DIM
    q = _load(first_q, end - row, QKV_STRIDE, HEAD_DIM, COLUMNS, BLOCK_M, True)  # [M, D]
    kv_head = head // (HEADS // KV_HEADS)
    keys = qkv + start.to(tl.int64) * QKV_STRIDE + (HEADS + kv_head) * HEAD_DIM
    values = keys + KV_HEADS * HEAD_DIM
    head_bias = None if bias is None else bias + head * (2 * REACH + 1) + REACH
    slope = None if alibi is None else tl.load(alibi + head)

    attended = tl.zeros([BLOCK_M, COLUMNS], tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    peak = tl.full([BLOCK_M], _NO_PEAK, tl.float32)
    edges = _edges(row, end, tokens, CAUSAL, WINDOW, NARROW, BLOCK_N)
    # Keys that some rows see, those that all do, and again those that some do.
    for part in tl.static_range(1 if WINDOW < 0 else 0, 1 if NARROW else 3):
        attended, total, peak = _attend_to(
            edges[part],
            edges[part + 1],
            attended,
            total,
            peak,
            q,
            keys,
            values,
            head_bias,
            slope,
            scale,
            row,
            tokens,
            QKV_STRIDE,
            HEAD_DIM,
            COLUMNS,
            CAUSAL,
            WINDOW,
            REACH,
            BLOCK_M,
            BLOCK_N,
            MASKED=part != 1,
        )

    rows = tl.arange(0, BLOCK_M)
    columns = tl.arange(0, COLUMNS)
    first_out = out + (start + row).to(tl.int64) * OUT_STRIDE + head * HEAD_DIM
    attended = attended / tl.maximum(total, 1e-30)[:, None]  # rows from `end` on may see nothing
    tl.store(
        first_out + rows[:, None] * OUT_STRIDE + columns[None, :],
        attended.to(out.dtype.element_ty),
        mask=(rows < end - row)[:, None] & (columns < HEAD_DIM)[None, :],
    )


@triton.jit
def _edges(
    row,
    end,
    tokens,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    NARROW: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """The keys that any of the rows up to `end` sees, and within them the blocks that all see."""
    first = 0
    full_first = 0
    last = end if CAUSAL else tokens
    full_last = row + 1 if CAUSAL else tokens
    if WINDOW >= 0:
        first = tl.maximum(0, row - WINDOW) // BLOCK_N * BLOCK_N
        full_first = tl.cdiv(tl.maximum(0, end - 1 - WINDOW), BLOCK_N) * BLOCK_N
        last = tl.minimum(last, end + WINDOW)
        full_last = tl.minimum(full_last, row + WINDOW + 1)
    full_last = full_last // BLOCK_N * BLOCK_N
    full_first = last if NARROW else tl.minimum(full_first, full_last)
    return first, full_first, full_last, last


@triton.jit
def _attend_to(
    first,
    last,
    attended,  # [M, D]: sum of p · v
    total,  # [M]: sum of p = exp2(score - peak)
    peak,  # [M]: the highest score so far, as a power of two
    q,  # [M, D]
    keys,
    values,
    bias,
    slope,
    scale,
    row,
    tokens,
    STRIDE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    REACH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Add the keys from `first` to `last`; not MASKED: whole blocks that all rows see."""
    power = scale * _LOG2_E
    for key in tl.range(first, last, BLOCK_N):
        offset = tl.cast(key, tl.int64) * STRIDE
        k = _load(keys + offset, tokens - key, STRIDE, HEAD_DIM, COLUMNS, BLOCK_N, MASKED)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")  # [M, N], not yet scaled
        distance = (key - row + tl.arange(0, BLOCK_N))[None, :] - tl.arange(0, BLOCK_M)[:, None]
        if bias is not None:
            near = tl.minimum(tl.maximum(distance, -REACH), REACH)
            scores += tl.load(bias + near) / scale
        if slope is not None:
            scores -= tl.abs(distance.to(tl.float32)) * (slope / scale)
        if MASKED:
            seen = _seen(distance, tokens - key, CAUSAL, WINDOW, BLOCK_N)
            scores = tl.where(seen, scores, _UNSEEN)
        new_peak = tl.maximum(peak, tl.max(scores, 1) * power)
        p = tl.exp2(scores * power - new_peak[:, None])
        shrink = tl.exp2(peak - new_peak)
        v = _load(values + offset, tokens - key, STRIDE, HEAD_DIM, COLUMNS, BLOCK_N, MASKED)
        attended = tl.dot(p.to(v.dtype), v, attended * shrink[:, None], input_precision="ieee")
        total = total * shrink + tl.sum(p, 1)
        peak = new_peak
    return attended, total, peak


@triton.jit
def _seen(distance, left, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, BLOCK_N: tl.constexpr):
    """[M, N]: whether a row of a sequence sees a key, of which there are `left`."""
    seen = distance <= 0 if CAUSAL else tl.arange(0, BLOCK_N)[None, :] < left
    if WINDOW >= 0:
        seen = seen & (distance >= -WINDOW)
        if not CAUSAL:
            seen = seen & (distance <= WINDOW)
    return seen


@triton.jit
def _load(
    pointer,
    left,
    STRIDE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    MASKED: tl.constexpr,
):
    """[BLOCK, COLUMNS]: rows of one head, zeros from row `left` on."""
    rows = tl.arange(0, BLOCK)
    columns = tl.arange(0, COLUMNS)
    pointers = pointer + rows[:, None] * STRIDE + columns[None, :]
    if MASKED:
        mask = (rows < left)[:, None] & (columns < HEAD_DIM)[None, :]
        block = tl.load(pointers, mask=mask, other=0.0)
    elif COLUMNS > HEAD_DIM:
        block = tl.load(pointers, mask=(columns < HEAD_DIM)[None, :], other=0.0)
    else:
        block = tl.load(pointers)
    return block
