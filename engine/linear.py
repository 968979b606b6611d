"""y = activation(x · Wᵀ + b): the one place where matrices of weights are multiplied."""

from typing import Protocol

import torch.nn.functional as F
from torch import Tensor

from engine.activation import Activation


class Linear(Protocol):
    def __call__(self, x: Tensor) -> Tensor:
        """[T, in] -> [T, out], in the dtype of the weights. The result shares no memory."""
        ...


class PlainLinear:
    """The reference: what torch's public functions compute."""

    __slots__ = ("_activation", "_bias", "_weight")

    def __init__(
        self, weight: Tensor, bias: Tensor | None, activation: Activation | None = None
    ) -> None:
        self._weight, self._bias = weight, bias  # [out, in], [out]
        self._activation = activation

    def __call__(self, x: Tensor) -> Tensor:
        y = F.linear(x, self._weight, self._bias)
        return y if self._activation is None else self._activation(y)
