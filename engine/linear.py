"""y = activation(x · Wᵀ + b): the one place where matrices of weights are multiplied."""

from collections.abc import Mapping
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.activation import Activation, hidden_activation


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


class PlainGatedLinear:
    """A product of which one half is activated and multiplied with the other: [T, in] -> [T, I]."""

    __slots__ = ("_activation", "_both")

    def __init__(self, both: Linear, activation: Activation) -> None:
        self._both = both  # [T, in] -> [T, 2 · I]: first the half that is activated
        self._activation = activation

    def __call__(self, x: Tensor) -> Tensor:
        gate, up = self._both(x).chunk(2, -1)
        return self._activation(gate).mul_(up)


class OneDnnLinear:
    """Weights in oneDNN's own layout, the activation computed while the product is in registers.

    In float32 F.linear goes through MKL, which reaches 105 GFLOP/s on a Zen 5 core where oneDNN
    reaches 245. The operators are private ones of torch: `onednn_fault` says whether they still do
    what is expected of them.
    """

    __slots__ = ("_algorithm", "_attribute", "_bias", "_operator", "_weight")

    # hidden_act -> (attribute, algorithm) of the operator
    _FUSED: Mapping[str | None, tuple[str, str]] = {
        None: ("none", ""),
        "gelu": ("gelu", "none"),
        "gelu_new": ("gelu", "tanh"),
        "gelu_pytorch_tanh": ("gelu", "tanh"),
        "relu": ("relu", ""),
        "silu": ("swish", ""),
    }

    def __init__(
        self, weight: Tensor, bias: Tensor | None, hidden_act: str | None, max_tokens: int
    ) -> None:
        """`max_tokens` is the number of rows that the layout is chosen for; others run too."""
        self._attribute, self._algorithm = self._FUSED[hidden_act]
        self._operator: Any = torch.ops.mkldnn._linear_pointwise.default
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), max_tokens)
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        return self._operator(x, self._weight, self._bias, self._attribute, [], self._algorithm)


def onednn_fault(dtype: torch.dtype) -> str | None:
    """Why OneDnnLinear cannot be used with this build of torch; None if it can."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return "torch was built without oneDNN"
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(shape, generator=generator).to(dtype) for shape in ((19, 64), (48, 64), (48,))
    )
    for hidden_act in OneDnnLinear._FUSED:
        activation = None if hidden_act is None else hidden_activation(hidden_act)
        expected = PlainLinear(weight.float(), bias.float(), activation)(x.float())
        try:
            y = OneDnnLinear(weight, bias, hidden_act, max_tokens=32)(x)
        except (AttributeError, RuntimeError, TypeError) as error:
            return f"torch {torch.__version__} has no such operator: {error}"
        # Sums of 64 products of unit variance are below 32: bfloat16 rounds them by up to 2^-4.
        tolerance = 1e-4 if dtype == torch.float32 else 0.125
        if not torch.allclose(y.float(), expected, rtol=0, atol=tolerance):
            return f"torch {torch.__version__} computes something else for {hidden_act!r}"
    return None
