"""Whole models: random ones against a reference in float64, the real one against known values."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference_bert import ReferenceBert
from sequences import batch_of, cosines, normalised, random_sequences, rows_of
from tiny_checkpoint import TinyCheckpoint

from engine.engine import Engine, EngineConfig
from engine.errors import CheckpointError

LENGTHS = [7, 1, 40, 7, 150, 3, 33]


def engine_of(tiny: TinyCheckpoint, directory: Path, **config: Any) -> Engine:
    tiny.write(directory)
    return Engine.load(tiny.spec(), tiny.files(directory), EngineConfig(**config))


def reference_of(tiny: TinyCheckpoint) -> ReferenceBert:
    return ReferenceBert(tiny.family, tiny.full_config, tiny.tensors())


def sequences_and_types(seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    sequences = random_sequences(LENGTHS, 97, seed)
    # The second half of a pair has type 1.
    return sequences, [(np.arange(len(s)) >= len(s) // 2).astype(np.uint8) for s in sequences]


@pytest.mark.parametrize("pooling", ["cls", "mean", "last_token"])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_vectors_are_those_of_the_reference(
    family: Any, pooling: Any, kernels: str, tmp_path: Path
) -> None:
    tiny = TinyCheckpoint(family=family, pooling=pooling)
    sequences, _ = sequences_and_types()
    rows = rows_of(engine_of(tiny, tmp_path, dtype="float32", kernels=kernels), sequences)
    expected = reference_of(tiny).pooled(pooling, sequences)
    np.testing.assert_allclose(rows, expected, atol=2e-5)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_padding_id_that_is_not_configured_is_1(family: Any, tmp_path: Path) -> None:
    """It is where RoBERTa's positions start, and nothing to BERT."""
    tiny = TinyCheckpoint(family=family, config={"pad_token_id": 1})
    sequences, _ = sequences_and_types()
    expected = rows_of(engine_of(tiny, tmp_path), sequences)
    tiny.write(tmp_path)
    files = tiny.files(tmp_path)
    unsaid = {key: value for key, value in files.config.items() if key != "pad_token_id"}
    engine = Engine.load(tiny.spec(), replace(files, config=unsaid), EngineConfig())
    np.testing.assert_array_equal(rows_of(engine, sequences), expected)


def test_padding_id_of_roberta_that_is_null_is_refused(tmp_path: Path) -> None:
    tiny = TinyCheckpoint(family="roberta", config={"pad_token_id": None})
    with pytest.raises(CheckpointError, match=r"config\.json lacks 'pad_token_id'"):
        engine_of(tiny, tmp_path)


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"])
def test_every_activation_is_computed_as_it_is_configured(
    hidden_act: str, kernels: str, tmp_path: Path
) -> None:
    tiny = TinyCheckpoint(config={"hidden_act": hidden_act})
    sequences, _ = sequences_and_types()
    rows = rows_of(engine_of(tiny, tmp_path, dtype="float32", kernels=kernels), sequences)
    # The erf and tanh forms of GELU move these vectors apart by 1e-3.
    np.testing.assert_allclose(rows, reference_of(tiny).pooled("mean", sequences), atol=2e-5)


@pytest.mark.parametrize(
    ("family", "dense", "output"),
    [
        ("bert", "pooler.dense", "classifier"),
        ("roberta", "classifier.dense", "classifier.out_proj"),
    ],
)
def test_scores_of_pairs_are_those_of_the_reference(
    family: Any, dense: str, output: str, kernels: str, tmp_path: Path
) -> None:
    tiny = TinyCheckpoint(family=family, task="score")
    sequences, types = sequences_and_types()
    engine = engine_of(tiny, tmp_path, dtype="float32", kernels=kernels)
    rows = engine.step(batch_of(sequences, types, kind="score")).wait().rows
    expected = reference_of(tiny).scores(dense, output, sequences, types)
    assert rows.shape == (len(sequences), 1)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, expected, atol=2e-5)


def test_bfloat16_stays_close_to_the_reference(kernels: str, tmp_path: Path) -> None:
    # Random weights magnify rounding; a real model stays within 1 - 1e-4.
    tiny = TinyCheckpoint()
    sequences, _ = sequences_and_types()
    rows = rows_of(engine_of(tiny, tmp_path, dtype="bfloat16", kernels=kernels), sequences)
    assert cosines(rows, reference_of(tiny).pooled("mean", sequences)).min() > 0.998


KNOWN_SENTENCES = (
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    "This is an example sentence",
)


def test_known_values_of_minilm(load_minilm: Any, encode: Any, kernels: str) -> None:
    rows = normalised(rows_of(load_minilm("float32", kernels), encode(KNOWN_SENTENCES)))
    similarities = rows @ rows.T
    np.testing.assert_allclose(
        similarities[[0, 0, 1], [1, 2, 2]], [0.6660, 0.1046, 0.1411], atol=5e-5
    )
    np.testing.assert_allclose(rows[3, :3], [0.0676569, 0.0634959, 0.0487131], atol=1e-6)


def test_bfloat16_keeps_the_vectors_of_minilm(load_minilm: Any, encode: Any, kernels: str) -> None:
    sequences = encode([" ".join(KNOWN_SENTENCES[: i % 4 + 1]) * (i + 1) for i in range(6)])
    exact = rows_of(load_minilm("float32", "plain"), sequences)
    assert cosines(rows_of(load_minilm("bfloat16", kernels), sequences), exact).min() > 0.9997
