"""Layers in few kernels, for an accelerator: where steps are short, their number is the bound."""

from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from checkpoint.spec import Pooling
from engine.activation import hidden_activation
from engine.encoder import Embeddings
from engine.join import JoinNorms, Unjoined
from engine.kernels import Kernels, ragged_kernels
from engine.linear import Linear, PlainLinear
from engine.norm import Norm
from engine.packing import Packed
from engine.triton_kernels.embed import embed
from engine.triton_kernels.finish import finish
from engine.triton_kernels.gate import gate
from engine.triton_kernels.join import join
from engine.triton_kernels.linear import fused_linear_tokens, linear
from engine.triton_kernels.norm import normed
from engine.triton_kernels.pool import pool
from engine.triton_kernels.turn import turn_


def fused_kernels(dtype: torch.dtype, place: torch.device) -> Kernels:
    """Triton's, and cuBLAS for the products. Norms, softmax and pooling compute in float32."""

    def make_linear(weight: Tensor, bias: Tensor | None, hidden_act: str | None = None) -> Linear:
        weight, bias = weight.to(dtype), None if bias is None else bias.to(dtype)
        if hidden_act is None:
            return PlainLinear(weight, bias)
        hidden_activation(hidden_act)  # raises for one that is not known
        return FusedLinear(weight, bias, hidden_act)

    def make_gated(weight: Tensor, bias: Tensor | None, hidden_act: str) -> Linear:
        hidden_activation(hidden_act)
        return FusedGatedLinear(
            weight.to(dtype), None if bias is None else bias.to(dtype), hidden_act
        )

    return replace(
        ragged_kernels(dtype, place),
        name="fused",
        norm_dtype=torch.float32,
        linear=make_linear,
        gated_linear=make_gated,
        join=FusedJoin,
        norm=lambda norm: partial(_normed, norm),
        rotary=lambda table: FusedRotaryTable(table.to(place)),
        embed=lambda embeddings: partial(_embed, embeddings),
        pool=_pool,
        finish=finish,
    )


@dataclass(frozen=True, eq=False, slots=True)
class FusedLinear:
    """The activation is computed while the product is in registers, where tokens are few."""

    weight: Tensor  # [out, in]
    bias: Tensor | None  # [out]
    hidden_act: str

    def __call__(self, x: Tensor) -> Tensor:
        if x.size(0) <= _few_tokens(self.weight):
            return linear(x, self.weight, self.bias, self.hidden_act)
        return hidden_activation(self.hidden_act)(F.linear(x, self.weight, self.bias))


@dataclass(frozen=True, eq=False, slots=True)
class FusedGatedLinear:
    weight: Tensor  # [2 · I, in]: first the half that is activated
    bias: Tensor | None  # [2 · I]
    hidden_act: str

    def __call__(self, x: Tensor) -> Tensor:
        if x.size(0) <= _few_tokens(self.weight):
            return linear(x, self.weight, self.bias, self.hidden_act, gated=True)
        return gate(F.linear(x, self.weight, self.bias), self.hidden_act)


def _few_tokens(weight: Tensor) -> int:
    """Tokens up to which the fused product is taken."""
    outputs, inputs = weight.shape
    return fused_linear_tokens(outputs, inputs, weight.dtype)


@dataclass(frozen=True, eq=False, slots=True)
class FusedJoin:
    norms: JoinNorms

    def __call__(self, branch: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return join(branch, hidden, self.norms)


@dataclass(frozen=True, eq=False, slots=True)
class FusedRotaryTable:
    """Every layer reads it by position: nothing is gathered before."""

    table: Tensor  # [positions, D] float32

    def at(self, position_ids: Tensor) -> "FusedRotation":
        return FusedRotation(self.table, position_ids)


@dataclass(frozen=True, eq=False, slots=True)
class FusedRotation:
    table: Tensor
    position_ids: Tensor  # [T]

    def turn_(self, heads: Tensor, norm: Norm | None) -> None:
        turn_(heads, heads.size(1), norm, self.table, self.position_ids)


def _normed(norm: Norm, x: Tensor) -> Tensor:
    return normed(x, norm)


def _embed(embeddings: Embeddings, packed: Packed) -> Tensor:
    return embed(embeddings, packed.input_ids, packed.position_ids, packed.type_ids)


def _pool(last: Unjoined, packed: Packed, pooling: Pooling) -> Tensor:
    return pool(last.branch, last.hidden, last.join.norms, packed.parts.segments, pooling)
