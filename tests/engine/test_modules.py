"""The modules after the Transformer: applied in order, or refused by name."""

from dataclasses import replace
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


def write_layer_norm(directory: Path, width: int) -> tuple[Module, dict[str, torch.Tensor]]:
    directory.mkdir()
    tensors = {"norm.weight": 1 + torch.randn(width) * 0.3, "norm.bias": torch.randn(width) * 0.3}
    save_file(tensors, directory / "model.safetensors")
    return Module("LayerNorm", directory, {"dimension": width}), tensors


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
    "kinds", [["CNN"], ["Pooling"], ["CNN", "Normalize"], ["FlexibleQuantizer"], ["WordWeights"]]
)
def test_module_that_is_unknown_or_out_of_place_is_named(
    kinds: list[str], tiny: TinyCheckpoint, tmp_path: Path
) -> None:
    modules = [Module(kind, tmp_path / kind, {}) for kind in kinds]
    with pytest.raises(CheckpointError, match=f"module '{kinds[0]}' of modules.json is not known"):
        Engine.load(tiny.spec(), tiny.files(tmp_path, *modules), FLOAT32)


@pytest.mark.parametrize("kinds", [["FlexibleQuantizer"], ["Normalize", "FlexibleQuantizer"]])
def test_quantizer_that_the_gateway_knows_is_left_to_it(
    kinds: list[str], tiny: TinyCheckpoint, tmp_path: Path
) -> None:
    plain = rows_of(Engine.load(tiny.spec(), tiny.files(tmp_path), FLOAT32), SEQUENCES)
    files = tiny.files(tmp_path, *(Module(kind, tmp_path / kind, {}) for kind in kinds))
    rows = rows_of(Engine.load(tiny.spec(quantizer="tanh_int8"), files, FLOAT32), SEQUENCES)
    np.testing.assert_array_equal(rows, plain)


def test_model_without_pooling_is_refused(tiny: TinyCheckpoint, tmp_path: Path) -> None:
    transformer = (Module("Transformer", tmp_path, {}),)
    with pytest.raises(CheckpointError, match="has no Pooling after the Transformer"):
        Engine.load(tiny.spec(), tiny.files(tmp_path, modules=transformer), FLOAT32)
    with pytest.raises(CheckpointError, match="not with a Transformer"):
        Engine.load(tiny.spec(), tiny.files(tmp_path, modules=()), FLOAT32)
    with pytest.raises(EngineError, match="pooling None is not known: cls, mean, max, mean_"):
        Engine.load(tiny.spec(pooling=None), tiny.files(tmp_path), FLOAT32)


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


def test_layer_norm_and_normalize_run_in_their_place(tiny: TinyCheckpoint, tmp_path: Path) -> None:
    pooled = torch.tensor(
        rows_of(Engine.load(tiny.spec(), tiny.files(tmp_path), FLOAT32), SEQUENCES)
    )
    norm, n = write_layer_norm(tmp_path / "2_LayerNorm", 48)
    dense, d = write_dense(tmp_path / "4_Dense", 48, 20, "torch.nn.modules.activation.Tanh")
    files = tiny.files(tmp_path, norm, NORMALIZE, dense, NORMALIZE)
    rows = rows_of(Engine.load(tiny.spec(dim=20, normalizes=True), files, FLOAT32), SEQUENCES)
    x = pooled - pooled.mean(-1, keepdim=True)
    x = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * n["norm.weight"] + n["norm.bias"]
    x = x / x.norm(dim=-1, keepdim=True)
    expected = torch.tanh(x @ d["linear.weight"].T + d["linear.bias"])
    np.testing.assert_allclose(rows, expected.numpy(), atol=2e-5)


@pytest.mark.parametrize("outputs", [48, 20])
def test_dense_adds_its_residual(outputs: int, tiny: TinyCheckpoint, tmp_path: Path) -> None:
    pooled = torch.tensor(
        rows_of(Engine.load(tiny.spec(), tiny.files(tmp_path), FLOAT32), SEQUENCES)
    )
    dense, w = write_dense(tmp_path / "2_Dense", 48, outputs, "torch.nn.modules.activation.Tanh")
    residual = pooled
    if outputs != 48:
        w["residual.weight"] = torch.randn(outputs, 48) * 0.3
        save_file(w, dense.directory / "model.safetensors")
        residual = pooled @ w["residual.weight"].T
    dense = replace(dense, config={**dense.config, "use_residual": True})
    files = tiny.files(tmp_path, dense)
    rows = rows_of(Engine.load(tiny.spec(dim=outputs), files, FLOAT32), SEQUENCES)
    expected = torch.tanh(pooled @ w["linear.weight"].T + w["linear.bias"]) + residual
    np.testing.assert_allclose(rows, expected.numpy(), atol=2e-5)


def test_module_over_another_feature_is_refused(tiny: TinyCheckpoint, tmp_path: Path) -> None:
    dense, _ = write_dense(tmp_path / "2_Dense", 48, 48, "torch.nn.modules.activation.Tanh")
    for config, message in (
        ({"module_input_name": "token_embeddings"}, "2_Dense reads 'token_embeddings', but gets"),
        ({"module_output_name": "scores"}, "ends with 'scores', not with 'sentence_embedding'"),
    ):
        module = replace(dense, config={**dense.config, **config})
        with pytest.raises(CheckpointError, match=message):
            Engine.load(tiny.spec(), tiny.files(tmp_path, module), FLOAT32)


def test_layer_norm_that_does_not_fit_is_refused(tiny: TinyCheckpoint, tmp_path: Path) -> None:
    norm, _ = write_layer_norm(tmp_path / "2_LayerNorm", 64)
    with pytest.raises(CheckpointError, match="2_LayerNorm norms 64 features, but gets 48"):
        Engine.load(tiny.spec(), tiny.files(tmp_path, norm), FLOAT32)


def test_module_that_cannot_follow_a_classifier_is_named(tmp_path: Path) -> None:
    tiny = TinyCheckpoint(task="score")
    tiny.write(tmp_path)
    with pytest.raises(CheckpointError, match="'Dense' is not known in a scoring model"):
        Engine.load(tiny.spec(), tiny.files(tmp_path, Module("Dense", tmp_path, {})), FLOAT32)


def test_modular_cross_encoder_is_its_modules(tiny: TinyCheckpoint, tmp_path: Path) -> None:
    pooled = torch.tensor(
        rows_of(Engine.load(tiny.spec(pooling="cls"), tiny.files(tmp_path), FLOAT32), SEQUENCES)
    )
    first, w1 = write_dense(tmp_path / "2_Dense", 48, 32, "torch.nn.modules.activation.GELU")
    last, w2 = write_dense(tmp_path / "3_Dense", 32, 1, "torch.nn.modules.linear.Identity")
    last = replace(last, config={**last.config, "module_output_name": "scores"})
    spec = tiny.spec(task="score", pooling="cls", dim=1)
    engine = Engine.load(spec, tiny.files(tmp_path, first, last), FLOAT32)
    hidden = torch.nn.functional.gelu(pooled @ w1["linear.weight"].T + w1["linear.bias"])
    expected = hidden @ w2["linear.weight"].T + w2["linear.bias"]
    np.testing.assert_allclose(rows_of(engine, SEQUENCES), expected.numpy(), atol=2e-5)
    with pytest.raises(CheckpointError, match="ends with 'sentence_embedding', not with 'scores'"):
        Engine.load(spec, tiny.files(tmp_path, first), FLOAT32)


@pytest.mark.parametrize("labels", [2, 5])
def test_modular_cross_encoder_of_several_labels_is_refused(
    labels: int, tiny: TinyCheckpoint, tmp_path: Path
) -> None:
    dense, _ = write_dense(tmp_path / "2_Dense", 48, labels, "torch.nn.modules.linear.Identity")
    dense = replace(dense, config={**dense.config, "module_output_name": "scores"})
    spec = tiny.spec(task="score", pooling="cls", dim=1)
    with pytest.raises(CheckpointError, match=f"give {labels} dimensions, not 1"):
        Engine.load(spec, tiny.files(tmp_path, dense), FLOAT32)
