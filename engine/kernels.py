"""How layers are computed: chosen once, at load, and the same for all families."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from checkpoint.spec import Pooling
from engine.activation import hidden_activation
from engine.attention import Attention, AttentionSpec, RaggedAttention, SequenceAttention
from engine.block import Block
from engine.encoder import Embeddings, RunBlocks
from engine.group_attention import GroupAttention, Scratch
from engine.join import Join, JoinNorms, PlainJoin, Unjoined
from engine.linear import Linear, OneDnnLinear, PlainGatedLinear, PlainLinear
from engine.norm import Norm
from engine.packing import Bucket, Packed
from engine.pooling import pool
from engine.rotary import PlainRotaryTable, RotaryTable
from engine.segments import pool_segments
from engine.weights import CPU


class MakeLinear(Protocol):
    def __call__(
        self, weight: Tensor, bias: Tensor | None, hidden_act: str | None = None
    ) -> Linear: ...


class MakeGatedLinear(Protocol):
    def __call__(self, weight: Tensor, bias: Tensor | None, hidden_act: str) -> Linear:
        """`weight` [2 · I, in]: first the half that is activated."""
        ...


# What the last layer leaves -> [rows, H] float32: those of Packed.spans, or one a sequence
Pool = Callable[[Unjoined, Packed, Pooling], Tensor]


@dataclass(frozen=True, eq=False)
class Kernels:
    name: str  # as the runtime reports it
    dtype: torch.dtype  # of weights and tokens
    norm_dtype: torch.dtype  # of a LayerNorm's weights
    place: torch.device
    linear: MakeLinear
    gated_linear: MakeGatedLinear
    attention: Callable[[AttentionSpec], Attention]
    join: Callable[[JoinNorms], Join]
    norm: Callable[[Norm], Callable[[Tensor], Tensor]]
    rotary: Callable[[Tensor], RotaryTable]  # of cosines and sines [positions, D] float32
    embed: Callable[[Embeddings], Callable[[Packed], Tensor]]
    layers: Callable[[Sequence[Block]], RunBlocks | None]  # None: block by block
    pool: Pool
    # Rows [N, D] float32 -> [N, D + 1]: in the last column 1 where the row is finite, else 0
    finish: Callable[[Tensor, Tensor], None]
    bucket: Bucket  # of a CPU


def plain_kernels(dtype: torch.dtype, place: torch.device = CPU) -> Kernels:
    """The reference: torch's public functions, nothing padded."""

    def linear(weight: Tensor, bias: Tensor | None, hidden_act: str | None = None) -> Linear:
        return PlainLinear(
            weight.to(dtype),
            None if bias is None else bias.to(dtype),
            None if hidden_act is None else hidden_activation(hidden_act),
        )

    return Kernels(
        name="plain",
        dtype=dtype,
        norm_dtype=dtype,
        place=place,
        linear=linear,
        gated_linear=_gated(linear),
        attention=SequenceAttention,
        join=PlainJoin,
        norm=lambda norm: norm,
        rotary=lambda table: PlainRotaryTable(table.to(place, dtype)),
        embed=lambda embeddings: embeddings,
        layers=lambda blocks: None,
        pool=_pool_groups,
        finish=_finish,
        bucket=lambda tokens: tokens,
    )


def ragged_kernels(dtype: torch.dtype, place: torch.device) -> Kernels:
    """torch's public functions on an accelerator, where shapes alone decide what is computed."""
    return replace(plain_kernels(dtype, place), attention=RaggedAttention, pool=_pool_ragged)


def onednn_kernels(dtype: torch.dtype, max_tokens: int) -> Kernels:
    """What is fastest on a CPU. Layouts are chosen for batches of `max_tokens`."""

    def linear(weight: Tensor, bias: Tensor | None, hidden_act: str | None = None) -> Linear:
        if hidden_act is not None:
            hidden_activation(hidden_act)  # raises for one that is not known
        bias = None if bias is None else bias.to(dtype)
        return OneDnnLinear(weight.to(dtype), bias, hidden_act, max_tokens)

    return replace(
        plain_kernels(dtype),
        name="onednn",
        linear=linear,
        gated_linear=_gated(linear),
        attention=partial(GroupAttention, scratch=Scratch(dtype), dtype=dtype),
        bucket=onednn_bucket,
    )


def _gated(linear: MakeLinear) -> MakeGatedLinear:
    def gated_linear(weight: Tensor, bias: Tensor | None, hidden_act: str) -> Linear:
        return PlainGatedLinear(linear(weight, bias), hidden_activation(hidden_act))

    return gated_linear


def _finish(rows: Tensor, out: Tensor) -> None:
    out[:, :-1] = rows
    out[:, -1] = rows.isfinite().all(1)


def _pool_groups(last: Unjoined, packed: Packed, pooling: Pooling) -> Tensor:
    return pool(last.states(), packed, pooling)


def _pool_ragged(last: Unjoined, packed: Packed, pooling: Pooling) -> Tensor:
    return pool_segments(last.states(), packed.parts.segments, pooling)


def onednn_bucket(tokens: int) -> int:
    """The padded total: oneDNN takes 1.0 to 1.4 ms to prepare a model's layers for a new one.

    The dummy tail is below 13 % from 64 tokens on, below 7 % from 512 on and 1 % of 2,048. Up to
    2,048 there are 88 totals, of four shapes each: well inside oneDNN's cache of 1,024.
    """
    for step, largest in ((8, 128), (16, 512), (32, 2048)):
        if tokens <= largest:
            return -(-tokens // step) * step
    return -(-tokens // 64) * 64
