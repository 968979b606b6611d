"""A row depends on its own sequence: not on its neighbours, the order or the padding."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sequences import batch_of, cosines, normalised, random_sequences, rows_of
from tiny_checkpoint import TinyCheckpoint

from engine.batch import Batch, Kind
from engine.engine import Engine, EngineConfig
from engine.errors import EngineError
from engine.packing import pack


@pytest.fixture(scope="module")
def tiny_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tiny")
    TinyCheckpoint().write(directory)
    return directory


@pytest.fixture
def tiny_engine(tiny_directory: Path, kernels: str) -> Engine:
    tiny = TinyCheckpoint()
    config = EngineConfig(dtype="float32", kernels=kernels)
    return Engine.load(tiny.spec(), tiny.files(tiny_directory), config)


lengths_of_batches = st.lists(st.integers(1, 300), min_size=1, max_size=12)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(lengths=lengths_of_batches, seed=st.integers(0, 2**31))
def test_row_does_not_depend_on_its_batch(
    tiny_engine: Engine, lengths: list[int], seed: int
) -> None:
    sequences = random_sequences(lengths, 97, seed)
    together = rows_of(tiny_engine, sequences)
    alone = np.concatenate([rows_of(tiny_engine, [sequence]) for sequence in sequences])
    np.testing.assert_allclose(normalised(together), normalised(alone), atol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_vector_of_minilm_does_not_depend_on_its_batch(
    load_minilm: Any, kernels: str, dtype: str
) -> None:
    engine = load_minilm(dtype, kernels)
    random = np.random.default_rng(5)
    lengths = [1, 200, *np.exp(random.normal(3, 1, 10)).clip(2, 256).astype(int)]
    sequences = random_sequences(lengths, 30522)
    alone = np.concatenate([rows_of(engine, [sequence]) for sequence in sequences])
    for _ in range(2):
        order = random.permutation(len(sequences))
        together = rows_of(engine, [sequences[i] for i in order])
        if dtype == "float32":
            np.testing.assert_allclose(normalised(together), normalised(alone[order]), atol=2e-5)
        assert cosines(together, alone[order]).min() >= 0.9995


def test_broken_sequence_spoils_no_other(tmp_path: Path, kernels: str) -> None:
    tiny = TinyCheckpoint()
    tensors = tiny.tensors()
    tensors["embeddings.word_embeddings.weight"][13] = np.nan
    tiny.write(tmp_path, tensors)
    config = EngineConfig(dtype="float32", kernels=kernels)
    engine = Engine.load(tiny.spec(), tiny.files(tmp_path), config)
    sequences = [s % 13 for s in random_sequences([5, 20, 20, 150, 1], 97)]
    sequences[2][7] = 13
    output = engine.step(batch_of(sequences)).wait()
    assert output.finite.tolist() == [True, True, False, True, True]
    healthy = [0, 1, 3, 4]
    expected = rows_of(engine, [sequences[i] for i in healthy])
    np.testing.assert_allclose(output.rows[healthy], expected, atol=2e-5)


def test_step_answers_with_float32_rows_and_its_timings(tiny_engine: Engine) -> None:
    lazy = tiny_engine.step(batch_of(random_sequences([4, 2, 9], 97)))
    output = lazy.wait()
    assert lazy.ready()
    assert output.rows.shape == (3, 48)
    assert output.rows.dtype == np.float32
    assert output.finite.tolist() == [True, True, True]
    assert set(output.timings) == {"pack", "infer"}
    assert all(seconds > 0 for seconds in output.timings.values())


def test_missing_types_are_zeros(tiny_engine: Engine) -> None:
    sequences = random_sequences([4, 2, 9], 97)
    zeros = batch_of(sequences, [np.zeros(len(s), np.uint8) for s in sequences])
    np.testing.assert_array_equal(
        tiny_engine.step(zeros).wait().rows, rows_of(tiny_engine, sequences)
    )


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def spanned(*spans: tuple[int, int, int], kind: Kind = "embed") -> Batch:
    array = np.array(spans, np.int32).reshape(-1, 3)
    return Batch(kind, ints(1, 2, 3, 4, 5), ints(2, 3), spans=array)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (Batch("score", ints(1, 2), ints(2)), "answers embed, not score"),
        (Batch("embed", ints(1, 2, 3), ints(2)), "lengths sum to T"),
        (Batch("embed", ints(1, 2), ints(2, 0)), "no sequence is empty"),
        (Batch("embed", ints(), ints()), "needs a sequence"),
        (Batch("embed", ints(1, 97), ints(2)), "not below 97"),
        (Batch("embed", ints(1, -1), ints(2)), "not below 97"),
        (Batch("embed", np.ones(321, np.int32), ints(321)), "321 tokens; tiny has 320 positions"),
        (Batch("embed", ints(1, 2), ints(2), np.array([0, 2], np.uint8)), "below 2"),
        (Batch("embed", ints(1, 2), ints(2), np.array([0], np.uint8)), "T values"),
        (spanned((0, 0, 1)), "every sequence of a batch with spans needs one"),
        (spanned((0, 0, 1), (1, 0, 1), (2, 0, 1)), "there are no others"),
        (spanned((-1, 0, 1), (0, 0, 1), (1, 0, 1)), "there are no others"),
        (spanned((1, 0, 1), (0, 0, 1)), "sorted by their sequence"),
        (spanned((0, 0, 1), (1, 1, 1)), "a span is empty"),
        (spanned((0, -1, 1), (1, 0, 1)), "leaves its sequence"),
        (spanned((0, 0, 3), (1, 0, 1)), "leaves its sequence"),
        (Batch("embed", ints(1), ints(1), spans=ints(0, 0, 1)), r"shape \[S, 3\], not \[3\]"),
    ],
)
def test_batch_that_the_model_cannot_run_is_refused(
    tiny_engine: Engine, batch: Batch, message: str
) -> None:
    with pytest.raises(EngineError, match=message):
        tiny_engine.step(batch)


def test_positions_of_roberta_end_where_its_table_ends(tmp_path: Path) -> None:
    tiny = TinyCheckpoint(family="roberta")
    tiny.write(tmp_path)
    engine = Engine.load(tiny.spec(), tiny.files(tmp_path), EngineConfig(dtype="float32"))
    assert rows_of(engine, random_sequences([318], 97)).shape == (1, 48)
    with pytest.raises(EngineError, match="318 positions"):
        rows_of(engine, random_sequences([319], 97))


def test_packing_sorts_by_length_and_pads_the_total_alone() -> None:
    batch = Batch("embed", np.arange(10, 19, dtype=np.int32), ints(3, 1, 3, 2))
    packed, layout = pack(batch, bucket=lambda tokens: 12)
    assert packed.groups == ((1, 1), (1, 2), (2, 3))
    assert packed.input_ids.tolist() == [13, 17, 18, 10, 11, 12, 14, 15, 16, 0, 0, 0]
    assert packed.position_ids.tolist() == [0, 0, 1, 0, 1, 2, 0, 1, 2, 0, 0, 0]
    assert (packed.tokens, packed.padded_tokens) == (9, 3)
    rows = np.array([[1], [3], [0], [2]], dtype=np.float32)  # the batch's own numbering, packed
    assert layout.restore(rows).ravel().tolist() == [0, 1, 2, 3]
