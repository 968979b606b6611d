import pytest
import torch
from poison import Poisoned, assert_rounded

from engine.activation import hidden_activation
from engine.triton_kernels.gate import gate

HIDDEN_ACTS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"]


@pytest.mark.parametrize("hidden_act", HIDDEN_ACTS)
def test_activation_is_exact(hidden_act: str) -> None:
    """The two forms of GELU differ by up to 5e-4."""
    x = torch.linspace(-8, 8, 1001)
    activated = gate(torch.cat([x, torch.ones(1001)])[None], hidden_act)[0]
    exact = hidden_activation(hidden_act)(x.double())
    torch.testing.assert_close(activated, exact.float(), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("hidden_act", "tokens", "width"),
    [("silu", 1, 3072), ("gelu", 5, 1152), ("gelu_new", 65, 96), ("relu", 300, 20)],
)
def test_gate_is_that_of_the_reference(
    hidden_act: str, tokens: int, width: int, dtype: torch.dtype
) -> None:
    gate_up = Poisoned(torch.randn(tokens, 2 * width).to(dtype))
    first, second = gate_up.view.float().chunk(2, -1)
    exact = hidden_activation(hidden_act)(first) * second
    assert_rounded(gate(gate_up.view, hidden_act), exact)


@pytest.mark.parametrize("hidden_act", HIDDEN_ACTS)
def test_what_is_no_number_stays_none(hidden_act: str) -> None:
    gate_up = torch.ones(1, 8)
    gate_up[0, 1] = torch.nan
    assert gate(gate_up, hidden_act).isnan().tolist() == [[False, True, False, False]]
