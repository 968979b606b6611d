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
from engine.lazy import LazyTensor, ResolvedTensor
from engine.self_test import fixed_sequences, run_self_test


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
    run_self_test(engine.step, engine.spec, dtype)
    with pytest.raises(SelfTestFailed, match="together and alone"):
        run_self_test(lambda batch: shifted(engine.step, batch, amount), engine.spec, dtype)


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
