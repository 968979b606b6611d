"""Linear layers in C++ compute what plain ones do, and a row has the same bits beside any other."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.activation import hidden_activation
from engine.cpu.products import CpuLinear
from engine.linear import PlainGatedLinear, PlainLinear

ACTIVATIONS = [None, "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"]
DTYPES = [torch.float32, torch.bfloat16]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def assert_close(actual: Tensor, expected: Tensor) -> None:
    """Activations are computed from the unrounded sum, so one rounding to 8 bits remains."""
    rtol, atol = (1e-5, 1e-5) if actual.dtype == torch.float32 else (2**-8, 1e-3)
    torch.testing.assert_close(actual.double(), expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hidden_act", ACTIVATIONS)
def test_rows_are_those_of_the_plain_layer(
    library: Any, hidden_act: str | None, dtype: torch.dtype
) -> None:
    weight, bias = (random(96, 48) / 7).to(dtype), random(96, seed=1).to(dtype)
    activation = None if hidden_act is None else hidden_activation(hidden_act)
    plain = PlainLinear(weight.double(), bias.double(), activation)
    ours = CpuLinear(library, weight, bias, hidden_act)
    for rows in (1, 2, 5, 11, 12, 13, 24, 25, 64, 333):
        x = random(rows, 48, seed=rows).to(dtype)
        assert_close(ours(x), plain(x.double()))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hidden_act", ACTIVATIONS[1:])
def test_gated_rows_are_those_of_the_plain_layer(
    library: Any, hidden_act: str, dtype: torch.dtype
) -> None:
    for inner in (16, 40, 33):
        weight, bias = (random(2 * inner, 48) / 7).to(dtype), random(2 * inner, seed=1)
        for added in (bias.to(dtype), None):
            wide = None if added is None else added.double()
            plain = PlainGatedLinear(
                PlainLinear(weight.double(), wide), hidden_activation(hidden_act)
            )
            x = random(19, 48, seed=2).to(dtype)
            ours = CpuLinear(library, weight, added, hidden_act, gated=True)
            assert_close(ours(x), plain(x.double()))


@settings(max_examples=60)
@given(
    rows=st.integers(1, 150),
    inputs=st.integers(1, 100),
    outputs=st.integers(1, 140),
    seed=st.integers(0, 2**31),
)
def test_layers_may_have_any_width(
    library: Any, rows: int, inputs: int, outputs: int, seed: int
) -> None:
    for dtype in DTYPES:
        whole = inputs * 2 if dtype == torch.bfloat16 else inputs  # two are one word
        weight = (random(outputs, whole, seed=seed) / whole**0.5).to(dtype)
        x = random(rows, whole, seed=seed + 1).to(dtype)
        plain = PlainLinear(weight.double(), None)
        assert_close(CpuLinear(library, weight, None)(x), plain(x.double()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_row_has_the_same_bits_beside_any_others(library: Any, dtype: torch.dtype) -> None:
    # So deep that rows are divided into blocks that stay in the cache.
    layer = CpuLinear(library, random(70, 1536).to(dtype), random(70, seed=1), "gelu")
    x = random(200, 1536, seed=2).to(dtype)
    together = layer(x)
    for first, last in ((0, 1), (7, 9), (30, 41), (30, 42), (50, 63), (90, 200)):
        assert torch.equal(layer(x[first:last]), together[first:last])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threads", [2, 3, 5, 16])
def test_threads_divide_the_rows_without_a_trace(
    library: Any, threads: int, dtype: torch.dtype
) -> None:
    """Of one block of rows and of several, the last of them small; of fewer steps than threads."""
    layer, usual = CpuLinear(library, random(130, 1536).to(dtype), None), torch.get_num_threads()
    try:
        for rows in (1, 12, 13, 61, 121, 500):
            x = random(rows, 1536, seed=rows).to(dtype)
            torch.set_num_threads(1)
            alone = layer(x)
            torch.set_num_threads(threads)
            assert torch.equal(layer(x), alone)
    finally:
        torch.set_num_threads(usual)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_row_that_is_no_number_spoils_no_other(
    library: Any, dtype: torch.dtype, broken: float
) -> None:
    for hidden_act in ACTIVATIONS:
        layer = CpuLinear(library, random(40, 32).to(dtype), None, hidden_act)
        x = random(30, 32, seed=1).to(dtype)
        healthy = layer(x)
        x[17, 3] = broken
        rows = layer(x)
        others = torch.arange(30) != 17
        assert torch.equal(rows[others], healthy[others])
        assert not rows[17].isfinite().all() or hidden_act == "relu"
        assert not (math.isnan(broken) and rows[17].isfinite().any())


@pytest.mark.parametrize("hidden_act", ACTIVATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_activations_hold_over_their_whole_range(
    library: Any, hidden_act: str | None, dtype: torch.dtype
) -> None:
    x = torch.linspace(-40, 40, 4001)[:, None].repeat(1, 2).to(dtype)
    # One product with 1 and one with 0: the sum is x itself.
    layer = CpuLinear(library, torch.eye(2)[:1].to(dtype), None, hidden_act)
    activation = hidden_activation(hidden_act) if hidden_act else torch.nn.Identity()
    expected = activation(x[:, :1].double())
    tolerance = 4e-6 if dtype == torch.float32 else 3e-4
    relative = 2e-6 if dtype == torch.float32 else 2**-8
    torch.testing.assert_close(layer(x).double(), expected, rtol=relative, atol=tolerance)


def test_strided_rows_are_read_as_what_they_are(library: Any) -> None:
    layer, x = CpuLinear(library, random(40, 32), None), random(20, 64)
    assert torch.equal(layer(x[:, ::2]), layer(x[:, ::2].contiguous()))
