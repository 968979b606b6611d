"""A model answers the kinds that its modules and files say, and refuses the others by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hidden_states import backbone
from reference_bert import ReferenceBert
from safetensors.torch import save_file
from sequences import batch_of, random_sequences, rows_of
from tiny_checkpoint import TinyCheckpoint
from torch import Tensor

from checkpoint.spec import Module
from engine.batch import Batch
from engine.engine import Engine, EngineConfig
from engine.errors import CheckpointError, EngineError
from engine.families import FAMILIES
from engine.heads.load import load_heads
from engine.lazy import StepOutput

FLOAT32 = EngineConfig(dtype="float32")
SEQUENCES = random_sequences([7, 1, 40, 7, 300, 3], 97)


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3)) * 0.3


def answer(engine: Engine, kind: Any) -> StepOutput:
    return engine.step(batch_of(SEQUENCES, kind=kind)).wait()


def states_of(tiny: TinyCheckpoint) -> list[Tensor]:
    """The reference's hidden states of each sequence, in float64."""
    hidden, mask = ReferenceBert(tiny.family, tiny.full_config, tiny.tensors()).hidden(SEQUENCES)
    return [states[tokens] for states, tokens in zip(hidden, mask, strict=True)]


def dense(output: StepOutput, sequences: int = len(SEQUENCES)) -> np.ndarray:
    assert output.row_offsets is not None
    rows = np.zeros((sequences, 97), np.float32)
    rows[np.repeat(np.arange(sequences), np.diff(output.row_offsets)), output.indices] = (
        output.rows[:, 0]
    )
    return rows


def test_model_of_vectors_pools_spans(tmp_path: Path, kernels: str) -> None:
    tiny = TinyCheckpoint()
    tiny.write(tmp_path)
    config = EngineConfig(dtype="float32", kernels=kernels)
    engine = Engine.load(tiny.spec(), tiny.files(tmp_path), config)
    assert engine.kinds == ("embed",)
    spans = [(0, 0, 3), (0, 3, 7), (1, 0, 1), (2, 5, 9), (3, 1, 7), (4, 0, 299), (5, 2, 3)]
    plain = batch_of(SEQUENCES)
    batch = Batch("embed", plain.input_ids, plain.lengths, spans=np.array(spans, np.int32))
    output = engine.step(batch).wait()
    states = states_of(tiny)
    expected = [states[sequence][start:end].mean(0).numpy() for sequence, start, end in spans]
    np.testing.assert_allclose(output.rows, expected, atol=2e-5)
    assert output.row_offsets is not None
    assert output.row_offsets.tolist() == [0, 2, 3, 4, 5, 6, 7]
    assert output.finite.all()


def write_mlm(tiny: TinyCheckpoint, directory: Path) -> Mapping[str, Tensor]:
    head = {
        "cls.predictions.transform.dense.weight": random(48, 48),
        "cls.predictions.transform.dense.bias": random(48),
        "cls.predictions.transform.LayerNorm.weight": 1 + random(48),
        "cls.predictions.transform.LayerNorm.bias": random(48),
        "cls.predictions.bias": random(97),
    }
    tiny.write(directory, {**tiny.tensors(), **head})
    return head


def test_masked_lm_gives_sparse_vectors(tmp_path: Path, kernels: str) -> None:
    tiny = TinyCheckpoint()
    head = write_mlm(tiny, tmp_path)
    files = tiny.files(tmp_path, modules=(Module("MLMTransformer", tmp_path, {}),))
    config = EngineConfig(dtype="float32", kernels=kernels)
    engine = Engine.load(tiny.spec(pooling="sparse", dim=97), files, config)
    assert engine.kinds == ("sparse",)
    reference = ReferenceBert("bert", tiny.full_config, {**tiny.tensors(), **head})
    words = reference.w["embeddings.word_embeddings.weight"]
    expected = []
    for states in states_of(tiny):
        x = reference.dense("cls.predictions.transform.dense", states)
        x = reference.norm("cls.predictions.transform.LayerNorm", torch.nn.functional.gelu(x))
        logits = x @ words.T + reference.w["cls.predictions.bias"]
        expected.append(logits.amax(0).relu().log1p().numpy())
    np.testing.assert_allclose(dense(answer(engine, "sparse")), expected, atol=2e-5)


def test_model_without_a_pooling_gives_token_vectors(tmp_path: Path, kernels: str) -> None:
    tiny = TinyCheckpoint()
    tiny.write(tmp_path)
    (tmp_path / "1_Dense").mkdir()
    save_file({"linear.weight": random(16, 48)}, tmp_path / "1_Dense" / "model.safetensors")
    settings = {"in_features": 48, "out_features": 16, "bias": False}
    settings["activation_function"] = "torch.nn.modules.linear.Identity"
    modules = (
        Module("Transformer", tmp_path, {}),
        Module("Dense", tmp_path / "1_Dense", settings),
        Module("MultiVectorMask", tmp_path, {}),
        Module("Normalize", tmp_path, {"module_input_name": "token_embeddings"}),
    )
    spec = tiny.spec(pooling="tokens", dim=16, normalizes=True)
    config = EngineConfig(dtype="float32", kernels=kernels)
    engine = Engine.load(spec, tiny.files(tmp_path, modules=modules), config)
    assert engine.kinds == ("tokens",)
    output = answer(engine, "tokens")
    expected = torch.cat(states_of(tiny)) @ random(16, 48).double().T
    np.testing.assert_allclose(output.rows, expected.numpy(), atol=2e-5)
    assert output.row_offsets is not None
    assert np.diff(output.row_offsets).tolist() == [7, 1, 40, 7, 300, 3]


def test_heads_beside_the_modules_give_kinds_of_their_own(tmp_path: Path) -> None:
    tiny = TinyCheckpoint(family="roberta", pooling="cls")
    tiny.write(tmp_path)
    plain = Engine.load(tiny.spec(), tiny.files(tmp_path), FLOAT32)
    assert plain.kinds == ("embed",)
    lexical = {"weight": random(1, 48), "bias": random(1)}
    save_file(lexical, tmp_path / "sparse_linear.safetensors")
    save_file(
        {"weight": random(48, 48), "bias": random(48)}, tmp_path / "colbert_linear.safetensors"
    )
    engine = Engine.load(tiny.spec(), tiny.files(tmp_path), FLOAT32)
    assert engine.kinds == ("embed", "sparse", "tokens")
    np.testing.assert_array_equal(rows_of(engine, SEQUENCES), rows_of(plain, SEQUENCES))
    expected = np.zeros((len(SEQUENCES), 97))
    for row, states, ids in zip(expected, states_of(tiny), SEQUENCES, strict=True):
        weights = (states @ lexical["weight"][0].double() + lexical["bias"].double()).relu()
        np.maximum.at(row, ids, weights.numpy())
    expected[:, :4] = 0
    np.testing.assert_allclose(dense(answer(engine, "sparse")), expected, atol=2e-5)
    vectors = answer(engine, "tokens")
    np.testing.assert_allclose(np.linalg.norm(vectors.rows, axis=1), 1, atol=1e-6)
    assert len(vectors.rows) == sum(len(s) - 1 for s in SEQUENCES)
    assert engine.self_test().max_abs_diff < 2e-5


def test_pickled_heads_are_never_read(tmp_path: Path) -> None:
    tiny = TinyCheckpoint(family="roberta")
    tiny.write(tmp_path)
    (tmp_path / "sparse_linear.pt").write_bytes(b"a pickle")
    assert Engine.load(tiny.spec(), tiny.files(tmp_path), FLOAT32).kinds == ("embed",)


@pytest.mark.parametrize("kind", ["score", "tokens", "sparse"])
def test_kind_that_the_model_does_not_answer_is_refused(kind: Any, tmp_path: Path) -> None:
    tiny = TinyCheckpoint()
    tiny.write(tmp_path)
    engine = Engine.load(tiny.spec(), tiny.files(tmp_path), FLOAT32)
    with pytest.raises(EngineError, match=f"tiny answers embed, not {kind}"):
        engine.step(batch_of(SEQUENCES, kind=kind))


def test_spans_are_for_vectors_alone(tmp_path: Path) -> None:
    tiny = TinyCheckpoint(task="score")
    tiny.write(tmp_path)
    engine = Engine.load(tiny.spec(), tiny.files(tmp_path), FLOAT32)
    ids, lengths = np.array([1, 2], np.int32), np.array([2], np.int32)
    batch = Batch("score", ids, lengths, spans=np.array([(0, 0, 2)], np.int32))
    with pytest.raises(EngineError, match="spans are for embed, not for score"):
        engine.step(batch)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "embed", "pooling": "sparse"}, "family 'gemma3' has no masked LM's head"),
        ({"task": "score", "pooling": None}, "family 'gemma3' has no head for scores"),
    ],
)
def test_family_without_the_head_is_refused(changes: Any, message: str, tmp_path: Path) -> None:
    tiny = TinyCheckpoint()
    files = tiny.files(tmp_path, modules=(Module("Transformer", tmp_path, {}),))
    spec = tiny.spec(family="gemma3", **changes)
    with pytest.raises(EngineError, match=message):
        load_heads(spec, files, FAMILIES["gemma3"], backbone(tmp_path, tiny.tensors()))


def test_module_that_a_sparse_model_does_not_know_is_named(tmp_path: Path) -> None:
    tiny = TinyCheckpoint()
    write_mlm(tiny, tmp_path)
    modules = (Module("Transformer", tmp_path, {}), Module("SparseAutoEncoder", tmp_path, {}))
    with pytest.raises(CheckpointError, match="SparseAutoEncoder"):
        Engine.load(tiny.spec(pooling="sparse"), tiny.files(tmp_path, modules=modules), FLOAT32)
