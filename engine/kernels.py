"""How layers are computed: chosen once, at load, and the same for all families."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from engine.activation import hidden_activation
from engine.attention import Attention, AttentionSpec, SequenceAttention
from engine.group_attention import GroupAttention, Scratch
from engine.linear import Linear, OneDnnLinear, PlainLinear
from engine.packing import Bucket


class MakeLinear(Protocol):
    def __call__(
        self, weight: Tensor, bias: Tensor | None, hidden_act: str | None = None
    ) -> Linear: ...


@dataclass(frozen=True, eq=False)
class Kernels:
    name: str  # as the runtime reports it
    dtype: torch.dtype  # of weights and tokens
    linear: MakeLinear
    attention: Callable[[AttentionSpec], Attention]
    bucket: Bucket


def plain_kernels(dtype: torch.dtype) -> Kernels:
    """The reference: torch's public functions, nothing padded."""

    def linear(weight: Tensor, bias: Tensor | None, hidden_act: str | None = None) -> Linear:
        return PlainLinear(
            weight.to(dtype),
            None if bias is None else bias.to(dtype),
            None if hidden_act is None else hidden_activation(hidden_act),
        )

    return Kernels("plain", dtype, linear, SequenceAttention, bucket=lambda tokens: tokens)


def onednn_kernels(dtype: torch.dtype, max_tokens: int) -> Kernels:
    """What is fastest on a CPU. Layouts are chosen for batches of `max_tokens`."""

    def linear(weight: Tensor, bias: Tensor | None, hidden_act: str | None = None) -> Linear:
        if hidden_act is not None:
            hidden_activation(hidden_act)  # raises for one that is not known
        bias = None if bias is None else bias.to(dtype)
        return OneDnnLinear(weight.to(dtype), bias, hidden_act, max_tokens)

    attention = partial(GroupAttention, scratch=Scratch(dtype), dtype=dtype)
    return Kernels("onednn", dtype, linear, attention, onednn_bucket)


def onednn_bucket(tokens: int) -> int:
    """The padded total: oneDNN takes 1.0 to 1.4 ms to prepare a model's layers for a new one.

    The dummy tail is below 13 % from 64 tokens on, below 7 % from 512 on and 1 % of 2,048. Up to
    2,048 there are 88 totals, of four shapes each: well inside oneDNN's cache of 1,024.
    """
    for step, largest in ((8, 128), (16, 512), (32, 2048)):
        if tokens <= largest:
            return -(-tokens // step) * step
    return -(-tokens // 64) * 64
