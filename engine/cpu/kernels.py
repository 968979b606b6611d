"""What of a model the compiled kernels compute, and what is left to others."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from engine.activation import hidden_activation
from engine.attention import Attention, AttentionSpec
from engine.cpu.binding import Features, compiled, cpu_fault, features, load
from engine.cpu.blocks import cpu_blocks
from engine.cpu.products import CpuAttention, CpuLinear
from engine.cpu.rows import CpuEmbed, CpuJoin, CpuNorm, CpuPool, CpuRotaryTable
from engine.errors import EngineError
from engine.kernels import Kernels, onednn_kernels, plain_kernels
from engine.linear import Linear, onednn_fault
from engine.rotary import RotaryTable


def cpu_kernels(dtype: torch.dtype, max_tokens: int) -> Kernels:
    """Nothing is padded, and a row is the same in every bit whatever is computed beside it.

    Norms, softmax and pooling compute in float32. Where the processor has tiles (AMX) oneDNN
    multiplies by the weights instead, in layouts for `max_tokens`: then rows depend on their batch.
    Raises EngineError, saying why, where processor or installation have no such kernels.
    """
    path, fault = compiled(), cpu_fault(dtype)
    if path is None or fault is not None:
        raise EngineError(f"kernels 'cpu' cannot be used: {fault}")
    library = load(path)
    # What computes where ours do not: with tiles all products, and layers of odd widths.
    onednn = onednn_fault(dtype) is None
    others = onednn_kernels(dtype, max_tokens) if onednn else plain_kernels(dtype)
    tiles = dtype == torch.bfloat16 and Features.TILES in features(library)
    ours = others if tiles and onednn else _with_linears(library, others)
    return replace(
        ours,
        name="cpu",
        norm_dtype=torch.float32,
        attention=_attention(library, others),
        join=partial(CpuJoin, library),
        norm=partial(CpuNorm, library),
        rotary=_rotary(library),
        embed=partial(CpuEmbed, library),
        layers=partial(cpu_blocks, library),
        pool=CpuPool(library.pool),
    )


def _with_linears(library: Any, others: Kernels) -> Kernels:
    """And with nothing padded: unlike oneDNN's, a product of a new size costs no preparation."""
    dtype = others.dtype

    def linear(weight: Tensor, bias: Tensor | None, hidden_act: str | None = None) -> Linear:
        if not _is_whole(weight.size(1), dtype):
            return others.linear(weight, bias, hidden_act)
        if hidden_act is not None:
            hidden_activation(hidden_act)  # raises for one that is not known
        return CpuLinear(library, weight.to(dtype), bias, hidden_act)

    def gated_linear(weight: Tensor, bias: Tensor | None, hidden_act: str) -> Linear:
        if not _is_whole(weight.size(1), dtype):
            return others.gated_linear(weight, bias, hidden_act)
        hidden_activation(hidden_act)
        return CpuLinear(library, weight.to(dtype), bias, hidden_act, gated=True)

    return replace(others, linear=linear, gated_linear=gated_linear, bucket=lambda tokens: tokens)


def _attention(library: Any, others: Kernels) -> Callable[[AttentionSpec], Attention]:
    def attention(spec: AttentionSpec) -> Attention:
        if not _is_whole(spec.head_dim, others.dtype):
            return others.attention(spec)
        return CpuAttention(library, spec, others.dtype)

    return attention


def _rotary(library: Any) -> Callable[[Tensor], RotaryTable]:
    def rotary(table: Tensor) -> RotaryTable:
        return CpuRotaryTable(library.turn, table.contiguous())

    return rotary


def _is_whole(width: int, dtype: torch.dtype) -> bool:
    """Whether rows of so many are whole words: two bfloat16 are one."""
    return dtype == torch.float32 or width % 2 == 0
