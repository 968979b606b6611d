"""The modules after the Transformer: applied in order, or refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sequences import random_sequences, rows_of
from tiny_checkpoint import TinyCheckpoint

from checkpoint.spec import Module
from engine.engine import Engine, EngineConfig
from engine.errors import CheckpointError, EngineError

FLOAT32 = EngineConfig(dtype="float32")
SEQUENCES = random_sequences([5, 1, 30], 97)
NORMALIZE = Module("Normalize", Path("9_Normalize"), {})


@pytest.fixture
def tiny(tmp_path: Path) -> TinyCheckpoint:
    tiny = TinyCheckpoint()
    tiny.write(tmp_path)
    return tiny


def write_dense(
    directory: Path, inputs: int, outputs: int, activation: str, bias: bool = True
) -> tuple[Module, dict[str, torch.Tensor]]:
    directory.mkdir()
    tensors = {"linear.weight": torch.randn(outputs, inputs) * 0.3}
    if bias:
        tensors["linear.bias"] = torch.randn(outputs) * 0.3
    save_file(tensors, directory / "model.safetensors")
    config: dict[str, Any] = {
        "in_features": inputs,
        "out_features": outputs,
        "bias": bias,
        "activation_function": activation,
    }
    return Module("Dense", directory, config), tensors


def test_dense_modules_follow_the_pooling_in_order(tiny: TinyCheckpoint, tmp_path: Path) -> None:
    pooled = torch.tensor(
        rows_of(Engine.load(tiny.spec(), tiny.files(tmp_path), FLOAT32), SEQUENCES)
    )
    first, w1 = write_dense(tmp_path / "2_Dense", 48, 96, "torch.nn.modules.activation.Tanh")
    second, w2 = write_dense(
        tmp_path / "3_Dense", 96, 20, "torch.nn.modules.linear.Identity", bias=False
    )
    files = tiny.files(tmp_path, first, second, NORMALIZE)
    rows = rows_of(Engine.load(tiny.spec(dim=20), files, FLOAT32), SEQUENCES)
    hidden = torch.tanh(pooled @ w1["linear.weight"].T + w1["linear.bias"])
    expected = hidden @ w2["linear.weight"].T
    np.testing.assert_allclose(rows, expected.numpy(), atol=2e-5)


def test_rows_are_not_normalised(tiny: TinyCheckpoint, tmp_path: Path) -> None:
    plain = rows_of(Engine.load(tiny.spec(), tiny.files(tmp_path), FLOAT32), SEQUENCES)
    files = tiny.files(tmp_path, NORMALIZE)
    rows = rows_of(Engine.load(tiny.spec(normalizes=True), files, FLOAT32), SEQUENCES)
    np.testing.assert_array_equal(rows, plain)
    assert np.abs(np.linalg.norm(rows, axis=1) - 1).min() > 0.1


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("torch.nn.modules.activation.ReLU", torch.relu),
        ("torch.nn.modules.activation.GELU", torch.nn.functional.gelu),
        ("torch.nn.modules.activation.SiLU", torch.nn.functional.silu),
        ("torch.nn.modules.activation.Sigmoid", torch.sigmoid),
    ],
)
def test_activation_of_a_dense_module(
    activation: str, function: Any, tiny: TinyCheckpoint, tmp_path: Path
) -> None:
    pooled = torch.tensor(
        rows_of(Engine.load(tiny.spec(), tiny.files(tmp_path), FLOAT32), SEQUENCES)
    )
    dense, w = write_dense(tmp_path / "2_Dense", 48, 48, activation)
    rows = rows_of(Engine.load(tiny.spec(), tiny.files(tmp_path, dense), FLOAT32), SEQUENCES)
    expected = function(pooled @ w["linear.weight"].T + w["linear.bias"])
    np.testing.assert_allclose(rows, expected.numpy(), atol=2e-5)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (["CNN"], "module 'CNN' of modules.json is not known"),
        (["LayerNorm", "Normalize"], "module 'LayerNorm' of modules.json is not known"),
        (["Normalize", "Normalize"], "'Normalize' of modules.json is not in its place"),
        (["Pooling"], "'Pooling' of modules.json is not in its place"),
    ],
)
def test_module_that_is_unknown_or_out_of_place_is_named(
    kinds: list[str], message: str, tiny: TinyCheckpoint, tmp_path: Path
) -> None:
    modules = [Module(kind, tmp_path / kind, {}) for kind in kinds]
    with pytest.raises(CheckpointError, match=message):
        Engine.load(tiny.spec(), tiny.files(tmp_path, *modules), FLOAT32)


def test_model_without_pooling_is_refused(tiny: TinyCheckpoint, tmp_path: Path) -> None:
    transformer = (Module("Transformer", tmp_path, {}),)
    with pytest.raises(CheckpointError, match="not with Transformer and Pooling"):
        Engine.load(tiny.spec(), tiny.files(tmp_path, modules=transformer), FLOAT32)
    with pytest.raises(EngineError, match="pooling None is not known: cls, mean, last_token"):
        Engine.load(tiny.spec(pooling=None), tiny.files(tmp_path), FLOAT32)
    with pytest.raises(EngineError, match="pooling 'max' is not known"):
        Engine.load(tiny.spec(pooling="max"), tiny.files(tmp_path), FLOAT32)


def test_dense_module_that_does_not_fit_is_refused(tiny: TinyCheckpoint, tmp_path: Path) -> None:
    wide, _ = write_dense(tmp_path / "2_Dense", 64, 48, "torch.nn.modules.activation.Tanh")
    with pytest.raises(CheckpointError, match="2_Dense takes 64 features, but gets 48"):
        Engine.load(tiny.spec(), tiny.files(tmp_path, wide), FLOAT32)
    fitting, _ = write_dense(tmp_path / "3_Dense", 48, 20, "torch.nn.modules.activation.Tanh")
    with pytest.raises(CheckpointError, match="give 20 dimensions, not 48"):
        Engine.load(tiny.spec(), tiny.files(tmp_path, fitting), FLOAT32)
    unknown, _ = write_dense(tmp_path / "4_Dense", 48, 48, "torch.nn.modules.activation.Mish")
    with pytest.raises(CheckpointError, match=r"Mish' is not known"):
        Engine.load(tiny.spec(), tiny.files(tmp_path, unknown), FLOAT32)


def test_scoring_model_has_no_modules_after_the_transformer(tmp_path: Path) -> None:
    tiny = TinyCheckpoint(task="score")
    tiny.write(tmp_path)
    with pytest.raises(CheckpointError, match="'Dense' is not known in a scoring model"):
        Engine.load(tiny.spec(), tiny.files(tmp_path, Module("Dense", tmp_path, {})), FLOAT32)
