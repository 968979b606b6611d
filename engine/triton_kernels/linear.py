"""Products with weights for few tokens: bias, activation and gate before anything is stored."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.triton_kernels.activation import activated


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    hidden_act: str | None = None,
    gated: bool = False,
) -> Tensor:
    """act(x · Wᵀ + b): [T, in] -> [T, out]; x has dense columns, `weight` [out, in] is dense.

    Gated: [T, out / 2], act(first half) · second half. Sums and what follows them are float32.
    """
    tokens, inputs = x.shape
    outputs = weight.size(0) // 2 if gated else weight.size(0)
    out = torch.empty(tokens, outputs, dtype=x.dtype, device=x.device)
    tile = linear_tile(tokens, outputs, gated)
    _linear_kernel[(tile.programs(tokens, outputs),)](
        x,
        weight,
        bias,
        out,
        tokens,
        x.stride(0),
        OUTPUTS=outputs,
        INPUTS=inputs,
        ACT=hidden_act,
        GATED=gated,
        ROWS=tile.rows,
        COLUMNS=tile.columns,
        DEPTH=tile.depth,
        num_warps=tile.warps,
        enable_fp_fusion=True,
        num_stages=tile.stages,
    )
    return out


def fused_linear_tokens(outputs: int, inputs: int, dtype: torch.dtype) -> int:
    """So many tokens at most are faster here than in cuBLAS with a kernel of its own behind it.

    An estimate, not measured yet. Where arithmetic is the bound, at 790 TFLOP/s in 16 bits, cuBLAS
    is taken to need a third less time: the launch of 2.5 µs that is saved is lost at 4 GFLOP. Up
    to 64 tokens reading the weights is the bound, in which neither is faster. In float32 never:
    there is no tensor core that would not round.
    """
    if dtype == torch.float32:
        return 0
    return min(max(int(4e9 / (2 * outputs * inputs)), 64), 512)


@dataclass(frozen=True, slots=True)
class Tile:
    """What a program computes, and in steps of which depth."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int

    def programs(self, tokens: int, outputs: int) -> int:
        return -(-tokens // self.rows) * -(-outputs // self.columns)


# From the widest: the first that gives every multiprocessor a program is taken, else the last.
# Wider tiles read less, narrower ones keep more of the memory's bandwidth busy. Not measured yet.
_TILES = (Tile(64, 128, 64, 4, 4), Tile(64, 64, 128, 4, 4), Tile(64, 32, 128, 4, 4))
_GATED_TILES = (Tile(64, 64, 64, 4, 4), Tile(64, 32, 128, 4, 3))
_FEW_ROWS = Tile(16, 32, 128, 4, 4)  # the weights are all that is read
_PROGRAMS = 128  # of 132 multiprocessors; widths are multiples of powers of two


def linear_tile(tokens: int, outputs: int, gated: bool) -> Tile:
    """`outputs`: columns of the result."""
    if tokens <= _FEW_ROWS.rows:
        return _FEW_ROWS
    tiles = _GATED_TILES if gated else _TILES
    for tile in tiles:
        if tile.programs(tokens, outputs) >= _PROGRAMS:
            return tile
    return tiles[-1]


@triton.jit(do_not_specialize=["tokens"])
def _linear_kernel(
    x,
    weight,
    bias,
    out,
    tokens,
    x_stride,
    OUTPUTS: tl.constexpr,
    INPUTS: tl.constexpr,
    ACT: tl.constexpr,
    GATED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    # Programs that read the same weights are neighbours: the second finds them in the cache.
    row_tiles = tl.cdiv(tokens, ROWS)
    rows = (tl.program_id(0) % row_tiles) * ROWS + tl.arange(0, ROWS)
    columns = (tl.program_id(0) // row_tiles) * COLUMNS + tl.arange(0, COLUMNS)
    depth = tl.arange(0, DEPTH)
    x += rows.to(tl.int64)[:, None] * x_stride + depth[None, :]  # [ROWS, DEPTH]
    weight += columns.to(tl.int64)[None, :] * INPUTS + depth[:, None]  # [DEPTH, COLUMNS]
    x_inside = rows[:, None] < tokens
    weight_inside = columns[None, :] < OUTPUTS
    product = tl.zeros([ROWS, COLUMNS], tl.float32)
    other = product
    for start in range(0, INPUTS, DEPTH):
        x_mask, weight_mask = x_inside, weight_inside
        if INPUTS % DEPTH:
            x_mask = x_inside & (start + depth[None, :] < INPUTS)
            weight_mask = weight_inside & (start + depth[:, None] < INPUTS)
        tokens_part = tl.load(x + start, mask=x_mask, other=0.0)
        part = tl.load(weight + start, mask=weight_mask, other=0.0)
        product = tl.dot(tokens_part, part, product, input_precision="ieee")
        if GATED:
            part = tl.load(weight + OUTPUTS * INPUTS + start, mask=weight_mask, other=0.0)
            other = tl.dot(tokens_part, part, other, input_precision="ieee")
    inside = columns < OUTPUTS
    if bias is not None:
        product += tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)[None, :]
    product = activated(product, ACT)
    if GATED:
        if bias is not None:
            bias += OUTPUTS
            other += tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)[None, :]
        product *= other
    out += rows.to(tl.int64)[:, None] * OUTPUTS + columns[None, :]
    tl.store(out, product.to(out.dtype.element_ty), mask=x_inside & inside[None, :])
