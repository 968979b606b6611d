"""Rows as they leave the device, each with a word on whether all of it is finite."""

from functools import cache

import triton
import triton.language as tl
from torch import Tensor


def finish(rows: Tensor, out: Tensor) -> None:
    """[N, D] float32 -> out [N, D + 1]; the last column is 1 where the row is finite, else 0."""
    count, width = rows.shape
    block = _block(width)
    _finish_kernel[(count,)](
        rows,
        out,
        rows.stride(0),
        out.stride(0),
        D=width,
        BLOCK=block,
        num_warps=min(max(block // 256, 1), 8),
        enable_fp_fusion=True,
    )


@cache
def _block(width: int) -> int:
    return min(triton.next_power_of_2(width), 4096)


@triton.jit(do_not_specialize_on_alignment=["out"])
def _finish_kernel(rows, out, rows_stride, out_stride, D: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    rows += row * rows_stride
    out += row * out_stride
    finite = tl.full([], 1, tl.int32)
    for start in range(0, D, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(rows + columns, mask=columns < D, other=0.0)
        tl.store(out + columns, x, mask=columns < D)
        # Comparisons with NaN are false.
        finite = tl.minimum(finite, tl.min((tl.abs(x) < float("inf")).to(tl.int32)))
    tl.store(out + D, finite.to(tl.float32))
