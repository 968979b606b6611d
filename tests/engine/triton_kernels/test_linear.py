import pytest
import torch
import torch.nn.functional as F
from poison import Poisoned
from torch import Tensor

from engine.activation import hidden_activation
from engine.triton_kernels.linear import fused_linear_tokens, linear, linear_tile

FULL, HALF = torch.float32, torch.float16  # in bfloat16 the interpreter's products are wrong

# tokens, outputs, inputs
SHAPES = [
    (1, 384, 384, "none biased", HALF),
    (15, 100, 1000, "gelu biased", FULL),
    (16, 64, 96, "silu gated", HALF),
    (63, 200, 384, "none", FULL),
    (64, 384, 100, "gelu biased", HALF),
    (65, 130, 768, "relu", FULL),
    (300, 48, 64, "gelu_new biased gated", FULL),
    (300, 1700, 16, "silu", FULL),
    (500, 2000, 16, "relu biased", HALF),
    (500, 1030, 16, "silu gated", HALF),
]


def reference(
    x: Tensor, weight: Tensor, bias: Tensor | None, hidden_act: str | None, gated: bool
) -> Tensor:
    """In float64."""
    y = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    first, second = y.chunk(2, -1) if gated else (y, torch.ones(1))
    return (first if hidden_act is None else hidden_activation(hidden_act)(first)) * second


@pytest.mark.parametrize(("tokens", "outputs", "inputs", "epilogue", "dtype"), SHAPES)
def test_product_is_that_of_the_reference(
    tokens: int, outputs: int, inputs: int, epilogue: str, dtype: torch.dtype
) -> None:
    hidden_act, *words = epilogue.split()
    act, gated = None if hidden_act == "none" else hidden_act, "gated" in words
    x = Poisoned(torch.randn(tokens, inputs).to(dtype)).view
    weight = (torch.randn((1 + gated) * outputs, inputs) / inputs**0.5).to(dtype)
    bias = torch.randn(weight.size(0)).to(dtype) if "biased" in words else None
    exact = reference(x, weight, bias, act, gated).float()
    # Products of unit variance: their sum is rounded once, to the dtype.
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(
        linear(x, weight, bias, act, gated).float(), exact, rtol=max(eps, 1e-5), atol=1e-5
    )


def test_every_tile_is_among_those_tested() -> None:
    tested, chosen = set(), set()
    for gated in (False, True):
        tested |= {
            linear_tile(t, n, gated) for t, n, _, act, _ in SHAPES if ("gated" in act) == gated
        }
        chosen |= {linear_tile(t, n, gated) for t in range(1, 513) for n in (1, 1600, 9999)}
    assert tested == chosen


def test_token_that_is_no_number_spoils_no_other() -> None:
    x = torch.randn(20, 64)
    x[3, 5] = torch.nan
    y = linear(x, torch.randn(48, 64), None)
    assert y.isnan().any(1).nonzero().tolist() == [[3]]


def test_vector_does_not_depend_on_its_batch() -> None:
    """Where the tile is the same: it is chosen by the padded total of tokens."""
    x, weight = torch.randn(200, 64), torch.randn(48, 64)
    assert torch.equal(linear(x, weight, None)[64:114], linear(x[64:114], weight, None))


def test_products_leave_to_cublas_what_it_does_faster() -> None:
    limits = [
        fused_linear_tokens(outputs, inputs, torch.bfloat16)
        for outputs, inputs in ((1536, 384), (6144, 1024), (19456, 2560))
    ]
    assert limits == [512, 317, 64]
    assert fused_linear_tokens(1536, 384, torch.float32) == 0
