"""The product of a GLU's halves, one of them activated."""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.triton_kernels.activation import activated


def gate(gate_up: Tensor, hidden_act: str) -> Tensor:
    """[T, 2 · I], of which the columns are dense, -> [T, I]: act(first half) · second half."""
    tokens, width = gate_up.size(0), gate_up.size(1) // 2
    out = torch.empty(tokens, width, dtype=gate_up.dtype, device=gate_up.device)
    block = _block(width)
    _gate_kernel[(tokens, -(-width // block))](
        gate_up,
        out,
        gate_up.stride(0),
        WIDTH=width,
        ACT=hidden_act,
        BLOCK=block,
        num_warps=max(block // 256, 1),
        enable_fp_fusion=True,
    )
    return out


@cache
def _block(width: int) -> int:
    return min(triton.next_power_of_2(width), 1024)


@triton.jit
def _gate_kernel(gate_up, out, stride, WIDTH: tl.constexpr, ACT: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < WIDTH
    first = tl.load(gate_up + token * stride + columns, mask=inside, other=0.0)
    second = tl.load(gate_up + token * stride + WIDTH + columns, mask=inside, other=0.0)
    product = activated(first.to(tl.float32), ACT) * second.to(tl.float32)
    tl.store(out + token * WIDTH + columns, product.to(out.dtype.element_ty), mask=inside)
