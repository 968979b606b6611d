"""How layers are computed: chosen once, at load, and the same for all families."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.activation import hidden_activation
from engine.attention import Attention, SequenceAttention
from engine.linear import Linear, PlainLinear
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
    attention: Callable[[int, int], Attention]  # (heads, head_dim)
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
