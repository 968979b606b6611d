"""Poolings, Dense and Normalize give what sentence-transformers gives, token by token."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cpu_paths import KERNELS, OUR_KERNELS
from reference import mutants, sharp, sharp_inputs, sharp_reference
from reference.archive import Reference
from reference.mutants import Mutant
from reference.pipeline import Pipeline, Rows, Sequences

EMBEDDERS = [name for name, recipe in sharp.CHECKPOINTS.items() if not recipe.scores]
MUTANTS: Mapping[str, Mapping[str, Mutant]] = {
    "bert-mean-dense": mutants.ENCODER | {"no bias of the Dense": Mutant(r"^linear\.bias")},
    "xlm-roberta-mean": mutants.ROBERTA,
}


def max_difference(name: str) -> float:
    """Of a value: rows of unit length have small ones."""
    return 1e-5 if sharp.CHECKPOINTS[name].normalizes else 1e-4


@pytest.fixture(scope="module")
def reference() -> Reference:
    return sharp_reference.read()


@pytest.fixture(scope="module", params=EMBEDDERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def directory(name: str, reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sharp_reference.write_checkpoint(
        name, reference, tmp_path_factory.mktemp("sharp") / name
    )


def test_texts_have_the_ids_of_the_reference(
    name: str, directory: Path, reference: Reference
) -> None:
    tokenizer = Pipeline.load(directory).tokenizer
    encoded = Sequences.encoded(tokenizer.encode(sharp_inputs.texts(), truncate=True))
    expected = Sequences.stored(reference, f"{name}/texts")
    for i, text in enumerate(sharp_inputs.texts()):
        assert encoded.input_ids[i].tolist() == expected.input_ids[i].tolist(), text
        assert not encoded.type_ids[i].any(), text


@pytest.mark.parametrize("kernels", KERNELS)
def test_vectors_equal_sentence_transformers(
    name: str, directory: Path, reference: Reference, kernels: str
) -> None:
    pipeline = Pipeline.load(directory, kernels=kernels)
    assert pipeline.spec.normalizes == sharp.CHECKPOINTS[name].normalizes
    for key in ("texts", "sequences"):
        rows = pipeline.rows(Sequences.stored(reference, f"{name}/{key}"))
        assert rows.shape[1] == pipeline.spec.dim
        assert difference(rows, reference, f"{name}/{key}") <= max_difference(name), key


@pytest.mark.parametrize("kernels", OUR_KERNELS)
@pytest.mark.parametrize(
    ("original", "detail"), [(name, detail) for name in MUTANTS for detail in MUTANTS[name]]
)
def test_wrong_detail_would_be_noticed(
    original: str, detail: str, kernels: str, reference: Reference, tmp_path: Path
) -> None:
    mutants.write_mutant(original, MUTANTS[original][detail], tmp_path)
    assert misses(original, tmp_path, reference, kernels)


@pytest.mark.parametrize("pooling", ["cls", "mean", "lasttoken"])
def test_another_pooling_would_be_noticed(
    name: str, directory: Path, reference: Reference, tmp_path: Path, pooling: sharp.Pooling
) -> None:
    recipe = sharp.CHECKPOINTS[name]
    sharp.write_checkpoint(name, tmp_path)
    sharp.write_json(
        tmp_path / "1_Pooling/config.json", sharp.pooling_config(replace(recipe, pooling=pooling))
    )
    assert misses(name, tmp_path, reference) == (pooling != recipe.pooling)


@pytest.mark.parametrize("original", ["bert-mean-dense", "xlm-roberta-cls-dense"])
def test_dense_without_its_activation_would_be_noticed(
    original: str, reference: Reference, tmp_path: Path
) -> None:
    sharp.write_checkpoint(original, tmp_path)
    path = tmp_path / "2_Dense/config.json"
    identity = {"activation_function": "torch.nn.modules.linear.Identity"}
    sharp.write_json(path, json.loads(path.read_text()) | identity)
    assert misses(original, tmp_path, reference)


def test_missing_normalize_would_be_noticed(reference: Reference, tmp_path: Path) -> None:
    sharp.write_checkpoint("bert-cls", tmp_path)
    path = tmp_path / "modules.json"
    sharp.write_json(path, json.loads(path.read_text())[:-1])
    assert misses("bert-cls", tmp_path, reference)


def misses(name: str, directory: Path, reference: Reference, kernels: str = "plain") -> bool:
    """Whether what is in the directory is far from the reference. Raises where it is in between."""
    pipeline = Pipeline.load(directory, kernels=kernels)
    rows = pipeline.rows(Sequences.stored(reference, f"{name}/texts"))
    distance = difference(rows, reference, f"{name}/texts") / max_difference(name)
    assert distance <= 1 or distance >= 10
    return distance >= 10


def difference(rows: Rows, reference: Reference, key: str) -> float:
    return float(np.abs(rows - reference.arrays[f"{key}/rows"]).max())
