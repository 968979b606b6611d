"""Checkpoints of random weights are whole: our own reader takes them for real ones."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from small_gpu_bench import SMALL_MODELS

from bench.gpu.checkpoints import Checkpoints
from bench.gpu.loads import batch_of, random_texts
from bench.gpu.shapes import MODELS, ModelShape
from checkpoint.families import FAMILIES
from engine.engine import Engine, EngineConfig

pytestmark = pytest.mark.usefixtures("one_thread")
MINILM, BGE_M3, QWEN3, PPLX = SMALL_MODELS


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    return Checkpoints(tmp_path_factory.mktemp("models"), torch.device("cpu"))


def rows(checkpoints: Checkpoints, shape: ModelShape) -> np.ndarray:
    config = EngineConfig(device="cpu", dtype="float32", kernels="plain")
    engine = Engine.load(checkpoints.spec(shape), checkpoints.files(shape), config)
    return engine.step(batch_of(random_texts([5, 17], shape.vocabulary))).wait().rows


@pytest.mark.parametrize("shape", SMALL_MODELS, ids=lambda shape: shape.name)
def test_files_name_an_architecture_of_the_family(
    checkpoints: Checkpoints, shape: ModelShape
) -> None:
    config = json.loads((checkpoints.directory(shape) / "config.json").read_text())
    family = FAMILIES[checkpoints.spec(shape).family]
    assert config["model_type"] in family.model_types
    assert config["architectures"][0] in family.embed


@pytest.mark.parametrize("shape", SMALL_MODELS, ids=lambda shape: shape.name)
def test_weights_are_bfloat16_and_all_of_them_are_read(
    checkpoints: Checkpoints, shape: ModelShape
) -> None:
    with safe_open(checkpoints.directory(shape) / "model.safetensors", framework="pt") as file:
        assert file.metadata() == {"format": "pt"}  # without which transformers refuses it
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.bfloat16}  # noqa: SIM118
    assert np.isfinite(rows(checkpoints, shape)).all()  # a tensor left over would have raised


def test_texts_are_told_apart(checkpoints: Checkpoints) -> None:
    for shape in SMALL_MODELS:
        first, second = rows(checkpoints, shape)
        cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
        assert cosine < 0.95, shape.name


def test_models_that_differ_in_their_mask_share_their_weights(checkpoints: Checkpoints) -> None:
    paths = [checkpoints.directory(shape) / "model.safetensors" for shape in (QWEN3, PPLX)]
    assert paths[0].samefile(paths[1])
    assert not np.allclose(rows(checkpoints, QWEN3), rows(checkpoints, PPLX))


def test_weights_are_the_same_in_every_run(checkpoints: Checkpoints, tmp_path: Path) -> None:
    again = Checkpoints(tmp_path, torch.device("cpu"))
    assert np.array_equal(rows(checkpoints, MINILM), rows(again, MINILM))


def test_shapes_are_those_of_the_published_checkpoints() -> None:
    assert {name: shape.parameters for name, shape in MODELS.items()} == {
        "all-MiniLM-L6-v2": 10_616_832,
        "bge-m3": 301_989_888,
        "Qwen3-Embedding-0.6B": 440_401_920,
        "pplx-embed-0.6b": 440_401_920,
    }
