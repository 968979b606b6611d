"""What a checkpoint may be called, and what is refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sequences import cosines, random_sequences, rows_of
from tiny_checkpoint import TinyCheckpoint

from checkpoint.spec import Module
from engine.engine import Engine, EngineConfig
from engine.errors import CheckpointError, EngineError

FLOAT32 = EngineConfig(dtype="float32")
SEQUENCES = random_sequences([5, 1, 30], 97)


def load(tiny: TinyCheckpoint, directory: Path, *modules: Module, **changes: Any) -> Engine:
    return Engine.load(tiny.spec(**changes), tiny.files(directory, *modules), FLOAT32)


def rows_with(tiny: TinyCheckpoint, directory: Path, tensors: Any) -> np.ndarray:
    tiny.write(directory, tensors)
    return rows_of(load(tiny, directory), SEQUENCES)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_names_may_carry_the_family_as_prefix(family: Any, tmp_path: Path) -> None:
    tiny = TinyCheckpoint(family=family)
    expected = rows_with(tiny, tmp_path, tiny.tensors())
    prefixed = {f"{family}.{name}": tensor for name, tensor in tiny.tensors().items()}
    np.testing.assert_array_equal(rows_with(tiny, tmp_path, prefixed), expected)


def test_norms_may_be_called_gamma_and_beta(tmp_path: Path) -> None:
    tiny = TinyCheckpoint()
    expected = rows_with(tiny, tmp_path, tiny.tensors())
    renamed = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): tensor
        for name, tensor in tiny.tensors().items()
    }
    assert renamed.keys() != tiny.tensors().keys()
    np.testing.assert_array_equal(rows_with(tiny, tmp_path, renamed), expected)


def test_unused_pooler_and_position_ids_are_left_out(tmp_path: Path) -> None:
    tiny = TinyCheckpoint()
    expected = rows_with(tiny, tmp_path, tiny.tensors())
    more = {
        "embeddings.position_ids": torch.arange(320)[None],
        "pooler.dense.weight": torch.ones(48, 48),
        "pooler.dense.bias": torch.ones(48),
    }
    np.testing.assert_array_equal(rows_with(tiny, tmp_path, tiny.tensors() | more), expected)


def test_shards_are_one_checkpoint(tmp_path: Path) -> None:
    tiny = TinyCheckpoint()
    expected = rows_with(tiny, tmp_path, tiny.tensors())
    items = list(tiny.tensors().items())
    shards = (tmp_path / "model-1-of-2.safetensors", tmp_path / "model-2-of-2.safetensors")
    save_file(dict(items[::2]), shards[0])
    save_file(dict(items[1::2]), shards[1])
    engine = Engine.load(tiny.spec(), tiny.files(tmp_path, weights=shards), FLOAT32)
    np.testing.assert_array_equal(rows_of(engine, SEQUENCES), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_checkpoints_load(dtype: torch.dtype, tmp_path: Path) -> None:
    tiny = TinyCheckpoint()
    expected = rows_with(tiny, tmp_path, tiny.tensors())
    halves = {name: tensor.to(dtype) for name, tensor in tiny.tensors().items()}
    assert cosines(rows_with(tiny, tmp_path, halves), expected).min() > 0.999


@pytest.mark.parametrize(
    "name",
    ["embeddings.LayerNorm.bias", "encoder.layer.1.output.dense.weight", "pooler.dense.bias"],
)
def test_missing_tensor_is_named(name: str, tmp_path: Path) -> None:
    tiny = TinyCheckpoint(task="score")
    tensors = tiny.tensors()
    del tensors[name]
    tiny.write(tmp_path, tensors)
    with pytest.raises(CheckpointError, match=f"'{name}' is missing from model.safetensors"):
        load(tiny, tmp_path)


@pytest.mark.parametrize(
    "name", ["encoder.layer.2.output.dense.weight", "cls.predictions.bias", "adapter.weight"]
)
def test_unexpected_tensor_is_named(name: str, tmp_path: Path) -> None:
    tiny = TinyCheckpoint()
    tiny.write(tmp_path, tiny.tensors() | {name: torch.ones(1)})
    with pytest.raises(CheckpointError, match=f"unexpected tensors: {name}$"):
        load(tiny, tmp_path)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("embeddings.LayerNorm.bias", torch.ones(47), r"shape \[47\], not \[48\]"),
        ("embeddings.LayerNorm.bias", torch.ones(48, dtype=torch.int8), "int8, not a float"),
        ("bert.embeddings.LayerNorm.bias", torch.ones(48), "there twice"),
    ],
)
def test_tensor_of_the_wrong_kind_is_named(
    name: str, tensor: torch.Tensor, message: str, tmp_path: Path
) -> None:
    tiny = TinyCheckpoint()
    tiny.write(tmp_path, tiny.tensors() | {name: tensor})
    with pytest.raises(CheckpointError, match=f"embeddings.LayerNorm.bias'.*{message}"):
        load(tiny, tmp_path)


def test_file_that_is_no_safetensors_is_named(tmp_path: Path) -> None:
    tiny = TinyCheckpoint()
    tiny.write(tmp_path).write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(CheckpointError, match=r"model\.safetensors cannot be read"):
        load(tiny, tmp_path)
    with pytest.raises(CheckpointError, match="no safetensors file"):
        Engine.load(tiny.spec(), tiny.files(tmp_path, weights=()), FLOAT32)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"hidden_act": "mish"}, "hidden_act 'mish' is not known"),
        ({"position_embedding_type": "relative_key"}, "'relative_key' is not known"),
        ({"is_decoder": True}, "is_decoder"),
        ({"num_attention_heads": 5}, "no multiple of 5 heads"),
    ],
)
def test_configuration_that_means_another_model_is_refused(
    config: dict[str, Any], message: str, tmp_path: Path
) -> None:
    tiny = TinyCheckpoint(config=config)
    tiny.write(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        load(tiny, tmp_path)


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("setting", ["layer_norm_eps", "hidden_act"])
def test_missing_setting_is_named(family: Any, setting: str, tmp_path: Path) -> None:
    tiny = TinyCheckpoint(family=family)
    tiny.write(tmp_path)
    config = {name: value for name, value in tiny.full_config.items() if name != setting}
    files = tiny.files(tmp_path, config=config)
    with pytest.raises(CheckpointError, match=f"config.json lacks '{setting}'"):
        Engine.load(tiny.spec(), files, FLOAT32)


def test_family_that_is_not_known_is_refused(tmp_path: Path) -> None:
    tiny = TinyCheckpoint()
    with pytest.raises(EngineError, match="family 'albert' is not known: bert, roberta"):
        load(tiny, tmp_path, family="albert")


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_classifier_of_several_labels_is_refused(family: Any, labels: int, tmp_path: Path) -> None:
    tiny = TinyCheckpoint(family=family, task="score", labels=labels)
    tiny.write(tmp_path)
    with pytest.raises(CheckpointError, match=f"{labels} labels; a score is the logit of a single"):
        load(tiny, tmp_path)
