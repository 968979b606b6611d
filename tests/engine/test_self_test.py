"""The self-test passes on a sound engine and fails on each kind of broken one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_checkpoint import TinyCheckpoint

from engine.batch import Batch
from engine.engine import Engine, EngineConfig
from engine.errors import SelfTestFailed
from engine.lazy import LazyTensor, ResolvedTensor, StepOutput
from engine.self_test import SelfTest, Subject, fixed_sequences, run_self_test


def engine_of(directory: Path, tiny: TinyCheckpoint, **config: Any) -> Engine:
    tiny.write(directory)
    return Engine.load(tiny.spec(), tiny.files(directory), EngineConfig(**config))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_real_model_passes(load_minilm: Any, kernels: str, dtype: str) -> None:
    result = load_minilm(dtype, kernels).self_test()
    assert result.sequences == 6
    assert result.min_cosine > 0.9995


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("task", ["embed", "score"])
def test_random_model_passes(family: Any, task: Any, kernels: str, tmp_path: Path) -> None:
    tiny = TinyCheckpoint(family=family, task=task)
    result = engine_of(tmp_path, tiny, dtype="float32", kernels=kernels).self_test()
    assert result.max_abs_diff < 2e-5


def shifted(step: Any, batch: Batch, amount: float) -> LazyTensor:
    """A step in which a neighbour shines through."""
    output = step(batch).wait()
    rows = output.rows + amount * (output.rows.mean(axis=0) - output.rows)
    return ResolvedTensor(replace(output, rows=rows))


@pytest.mark.parametrize(
    ("dtype", "amount"), [("float32", 1e-3), ("bfloat16", 0.2)], ids=["float32", "bfloat16"]
)
@pytest.mark.parametrize("task", ["embed", "score"])
def test_engine_that_mixes_sequences_fails(
    task: Any, dtype: str, amount: float, tmp_path: Path
) -> None:
    engine = engine_of(tmp_path, TinyCheckpoint(task=task), dtype=dtype)
    sound = Subject(engine.step, engine.spec, dtype, engine.kinds)
    run_self_test(sound)
    broken = replace(sound, step=lambda batch: shifted(engine.step, batch, amount))
    with pytest.raises(SelfTestFailed, match="together and alone"):
        run_self_test(broken)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_engine_that_computes_nan_fails(dtype: str, tmp_path: Path) -> None:
    tiny = TinyCheckpoint()
    tensors = tiny.tensors()
    tensors["encoder.layer.1.output.dense.bias"][3] = np.inf
    tiny.write(tmp_path, tensors)
    engine = Engine.load(tiny.spec(), tiny.files(tmp_path), EngineConfig(dtype=dtype))
    with pytest.raises(SelfTestFailed, match="not finite"):
        engine.self_test()
    assert engine.runtime["self_test"] is None


@pytest.mark.parametrize("max_tokens", [1, 8, 130, 512])
def test_fixed_sequences_fit_the_model(max_tokens: int) -> None:
    spec = TinyCheckpoint().spec(max_tokens=max_tokens)
    sequences = fixed_sequences(spec)
    lengths = [len(sequence) for sequence in sequences]
    assert min(lengths) == 1
    assert max(lengths) == min(max_tokens, 300)
    ids = np.concatenate(sequences)
    assert ids.min() >= 0
    assert ids.max() < spec.vocab_size
    for left, right in zip(sequences, fixed_sequences(spec), strict=True):
        np.testing.assert_array_equal(left, right)


def known_pair(*first_ids: int) -> Batch:
    """Texts of three tokens; what they are is told by their first."""
    ids = np.array([(first, 5, 6) for first in first_ids], np.int32)
    return Batch("score", ids.ravel(), np.full(len(first_ids), 3, np.int32))


class Reranker:
    """Gives each sequence the logit that its first id has in a table; 0 to the others."""

    def __init__(self, logits: dict[int, float]) -> None:
        self.logits = logits

    def step(self, batch: Batch) -> LazyTensor:
        firsts = batch.input_ids[np.cumsum(batch.lengths) - batch.lengths]
        rows = np.array([[self.logits.get(int(first), 0.0)] for first in firsts], np.float32)
        return ResolvedTensor(StepOutput(rows, np.isfinite(rows).all(axis=1), {}))

    def test(self, *known_pairs: Batch) -> SelfTest:
        spec = TinyCheckpoint(task="score").spec()
        return run_self_test(Subject(self.step, spec, "float32", ["score"]), known_pairs)


def test_reranker_that_ranks_the_known_pairs_passes() -> None:
    reranker = Reranker({1: 2.0, 2: -1.0, 3: 1.0})
    result = reranker.test(known_pair(1, 2, 3), known_pair(3, 2))
    assert result.ranks_known_pair is True
    assert result.to_dict()["ranks_known_pair"] is True


@pytest.mark.parametrize("pairs", [(known_pair(2, 1),), (known_pair(1, 2), known_pair(3, 2, 1))])
def test_reranker_that_ranks_a_known_pair_wrongly_is_told_so(pairs: tuple[Batch, ...]) -> None:
    result = Reranker({1: 2.0, 2: -1.0, 3: 1.0}).test(*pairs)
    assert result.ranks_known_pair is False


def test_reranker_without_known_pairs_is_not_judged() -> None:
    assert Reranker({}).test().ranks_known_pair is None


@pytest.mark.parametrize("spread", [0.0, 5e-5])
def test_reranker_that_gives_every_pair_the_same_score_fails(spread: float) -> None:
    reranker = Reranker({1: 0.7 + spread, 2: 0.7, 3: 0.7})
    with pytest.raises(SelfTestFailed, match=r"gets the same score.* a lost head or template"):
        reranker.test(known_pair(1, 2), known_pair(2, 3))


def test_reranker_that_reads_only_the_query_fails() -> None:
    reranker = Reranker({1: 2.0, 2: -1.0})
    with pytest.raises(SelfTestFailed, match="every text of a query gets the same score"):
        reranker.test(known_pair(1, 1, 1), known_pair(2, 2))
    with pytest.raises(SelfTestFailed, match="every text of a query gets the same score"):
        reranker.test(known_pair(1, 2), known_pair(2, 2))


def test_reranker_that_answers_a_known_pair_with_nan_fails() -> None:
    with pytest.raises(SelfTestFailed, match="not finite"):
        Reranker({1: np.nan, 2: 0.5}).test(known_pair(1, 2))


def test_lost_head_of_a_model_fails_and_a_sound_one_is_told_its_order(tmp_path: Path) -> None:
    tiny = TinyCheckpoint(task="score")
    engine = engine_of(tmp_path, tiny, dtype="float32")
    order = [engine.self_test([known_pair(*ids)]).ranks_known_pair for ids in ((7, 9), (9, 7))]
    assert sorted(order, key=bool) == [False, True]
    assert engine.runtime["self_test"]["ranks_known_pair"] == order[-1]
    tensors = tiny.tensors()
    tensors["classifier.weight"][:] = 0
    tiny.write(tmp_path, tensors)
    lost = Engine.load(tiny.spec(), tiny.files(tmp_path), EngineConfig(dtype="float32"))
    with pytest.raises(SelfTestFailed, match="every text of a query gets the same score"):
        lost.self_test([known_pair(7, 9)])
    assert lost.runtime["self_test"] is None
