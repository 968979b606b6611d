"""Up to how many tokens a product fused with its activation beats cuBLAS and a kernel behind it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.gpu.parts.part import Row, Rows
from bench.gpu.setup import Setup
from bench.gpu.shapes import ModelShape
from bench.gpu.timing import computed, time_kernels
from engine.activation import hidden_activation

_TABLE = "Products with an activation"
_MOST_COPIES = 64  # of weights: a graph of hundreds of products would tell nothing more


def measure(setup: Setup) -> Rows:
    try:
        from engine.triton_kernels.linear import fused_linear_tokens
    except ImportError as error:
        yield Row(_TABLE, {"layer": "all", "fault": f"triton is not installed: {error}"})
        return
    for product in dict.fromkeys(_product_of(shape) for shape in setup.models):
        estimate = fused_linear_tokens(product.outputs, product.inputs, setup.dtype)
        for tokens in setup.sizes.product_tokens:
            fused_s = _time(setup, product, tokens, _fused)
            separate_s = _time(setup, product, tokens, _separate)
            yield Row(
                _TABLE,
                {
                    "layer": product.name,
                    "tokens": tokens,
                    "fused_us": fused_s * 1e6,
                    "separate_us": separate_s * 1e6,
                    "separate_over_fused": separate_s / fused_s,
                    "engine_takes": "fused" if tokens <= estimate else "separate",
                    "faster": "fused" if fused_s < separate_s else "separate",
                },
            )


@dataclass(frozen=True)
class _Product:
    """The first of an MLP."""

    inputs: int
    outputs: int  # of a gated one those of both halves
    gated: bool

    @property
    def hidden_act(self) -> str:
        return "silu" if self.gated else "gelu"

    @property
    def name(self) -> str:
        return f"{self.inputs} to {self.outputs}, {'gate and up' if self.gated else 'up'}"


@dataclass(frozen=True, eq=False)
class _Operands:
    x: Tensor  # [tokens, inputs]
    weights: list[Tensor]  # [outputs, inputs] each
    bias: Tensor | None  # [outputs]


_Multiply = Callable[[_Product, _Operands, Tensor], Tensor]


def _product_of(shape: ModelShape) -> _Product:
    return _Product(shape.width, (1 + shape.gated) * shape.mlp_width, shape.gated)


def _time(setup: Setup, product: _Product, tokens: int, multiply: _Multiply) -> float:
    """Seconds of one, each with other weights, which the cache does not have."""
    operands = computed(setup.device, partial(_draw, setup, product, tokens))
    works = [partial(multiply, product, operands, weight) for weight in operands.weights]
    effort = replace(setup.sizes.effort, timed_s=setup.sizes.effort.timed_s / 5)
    return time_kernels(setup.device, works, effort)


def _draw(setup: Setup, product: _Product, tokens: int) -> _Operands:
    random = partial(torch.randn, device=setup.device.place, dtype=setup.dtype)
    weight_bytes = setup.dtype.itemsize * product.outputs * product.inputs
    copies = min(max(1, setup.sizes.product_bytes // weight_bytes), _MOST_COPIES)
    return _Operands(
        random(tokens, product.inputs),
        [random(product.outputs, product.inputs) for _ in range(copies)],
        None if product.gated else random(product.outputs),
    )


def _fused(product: _Product, operands: _Operands, weight: Tensor) -> Tensor:
    from engine.triton_kernels.linear import linear

    return linear(operands.x, weight, operands.bias, product.hidden_act, gated=product.gated)


def _separate(product: _Product, operands: _Operands, weight: Tensor) -> Tensor:
    from engine.triton_kernels.gate import gate

    result = F.linear(operands.x, weight, operands.bias)
    if product.gated:
        return gate(result, product.hidden_act)
    return hidden_activation(product.hidden_act)(result)
