"""oneDNN's linears compute what the plain ones do, and are noticed when they no longer do."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny_checkpoint import TinyCheckpoint

from engine.activation import hidden_activation
from engine.engine import Engine, EngineConfig
from engine.errors import EngineError
from engine.kernels import onednn_bucket
from engine.linear import OneDnnLinear, PlainLinear, onednn_fault

ACTIVATIONS = [None, "gelu", "gelu_new", "gelu_pytorch_tanh", "relu"]
DTYPES = [torch.float32, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hidden_act", ACTIVATIONS)
def test_onednn_computes_what_plain_computes(hidden_act: str | None, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(96, 48, generator=generator) / 7
    bias = torch.randn(96, generator=generator)
    activation = None if hidden_act is None else hidden_activation(hidden_act)
    weight, bias = weight.to(dtype), bias.to(dtype)
    plain = PlainLinear(weight.float(), bias.float(), activation)
    fast = OneDnnLinear(weight, bias, hidden_act, max_tokens=64)
    for tokens in (1, 5, 64, 333):
        x = torch.randn(tokens, 48, generator=generator).to(dtype)
        # The activation is computed from the unrounded sum, so one rounding to 8 bits remains.
        rtol, atol = (1e-5, 1e-5) if dtype == torch.float32 else (2**-8, 1e-3)
        torch.testing.assert_close(fast(x).float(), plain(x.float()), rtol=rtol, atol=atol)


def test_linear_may_have_no_bias() -> None:
    weight, x = torch.randn(96, 48), torch.randn(5, 48)
    fast = OneDnnLinear(weight, None, None, max_tokens=64)
    torch.testing.assert_close(fast(x), PlainLinear(weight, None)(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_private_operators_of_this_torch_are_the_expected_ones(dtype: torch.dtype) -> None:
    assert onednn_fault(dtype) is None


def broken_operators() -> dict[str, Any]:
    real = torch.ops.mkldnn._linear_pointwise.default

    def other_arguments(x: Any, weight: Any) -> None:
        """A release might change the signature."""

    def never_activates(x: Any, weight: Any, bias: Any, *_: Any) -> Any:
        return real(x, weight, bias, "none", [], "")

    def always_tanh(x: Any, weight: Any, bias: Any, attribute: str, *_: Any) -> Any:
        return real(x, weight, bias, attribute, [], "tanh")

    return {
        "gone": SimpleNamespace(),
        "other_arguments": SimpleNamespace(default=other_arguments),
        "never_activates": SimpleNamespace(default=never_activates),
        "always_tanh": SimpleNamespace(default=always_tanh),
    }


@pytest.fixture(params=["gone", "other_arguments", "never_activates", "always_tanh"])
def broken_operator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", broken_operators()[request.param])


@pytest.mark.usefixtures("broken_operator")
def test_engine_falls_back_to_plain_kernels_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tiny = TinyCheckpoint()
    tiny.write(tmp_path)
    with caplog.at_level(logging.WARNING):
        engine = Engine.load(
            tiny.spec(), tiny.files(tmp_path), EngineConfig(dtype="float32", cpu_kernels=False)
        )
    assert engine.runtime["kernels"] == "plain"
    assert "plain kernels" in caplog.text


@pytest.mark.usefixtures("broken_operator")
def test_kernels_that_were_named_are_never_replaced(tmp_path: Path) -> None:
    tiny = TinyCheckpoint()
    tiny.write(tmp_path)
    config = EngineConfig(dtype="float32", kernels="onednn")
    with pytest.raises(EngineError, match="'onednn' cannot be used: torch"):
        Engine.load(tiny.spec(), tiny.files(tmp_path), config)


def test_torch_without_onednn_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert onednn_fault(torch.float32) == "torch was built without oneDNN"


def test_padded_totals_are_few_and_near() -> None:
    totals = {tokens: onednn_bucket(tokens) for tokens in range(1, 2049)}
    assert all(0 <= padded - tokens < 64 for tokens, padded in totals.items())
    assert all(padded < 1.13 * tokens for tokens, padded in totals.items() if tokens >= 64)
    assert all(onednn_bucket(padded) == padded for padded in totals.values())
    assert len(set(totals.values())) == 88
    assert onednn_bucket(8100) == 8128
