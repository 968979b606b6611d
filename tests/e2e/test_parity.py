"""all-MiniLM-L6-v2 gives the vectors that sentence-transformers gives, in any company."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from cpu_paths import KERNELS
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import archive, texts
from reference.archive import Reference
from reference.pipeline import Pipeline, Rows, Sequences, cosines

from checkpoint.find import find_model

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
COMPANIONS = 32  # texts that are dealt into random batches

MIN_COSINE = 0.99999  # of a float32 vector to the reference
MIN_COSINE_BFLOAT16, MIN_MEAN_COSINE_BFLOAT16 = 0.999, 0.9999
MAX_DIFFERENCE_BY_BATCH = 2e-5  # of float32 vectors
MIN_COSINE_BY_BATCH_BFLOAT16 = 0.9995

Load = Callable[[str, str], Pipeline]  # (dtype, kernels)
VectorsOf = Callable[[str, str], Rows]  # of the corpus, in steps as a worker makes them


@pytest.fixture(scope="module")
def load() -> Load:
    return cache(lambda dtype, kernels: Pipeline.load(MODEL, dtype, kernels))


@pytest.fixture(scope="module")
def vectors_of(load: Load, sequences: Sequences) -> VectorsOf:
    return cache(lambda dtype, kernels: load(dtype, kernels).rows(sequences))


@pytest.fixture(scope="module")
def reference() -> Reference:
    """Raises where the values were made from other weights or texts."""
    reference = archive.read("minilm.npz")
    weights = find_model(MODEL).directory / "model.safetensors"
    for name, actual in (
        ("weights_sha256", archive.sha256(weights)),
        ("texts_sha256", texts.sha256(texts.corpus())),
        ("over_long_sha256", texts.sha256(texts.over_long())),
    ):
        assert actual == reference.header[name], f"{name} changed: run make_minilm.py again"
    return reference


@pytest.fixture(scope="module")
def sequences(reference: Reference) -> Sequences:
    return Sequences.of(reference.arrays["input_ids"], reference.arrays["lengths"])


@pytest.fixture(scope="module")
def companions(reference: Reference) -> Sequences:
    """A few sequences of every length."""
    arrays = reference.arrays
    by_length = np.argsort(arrays["lengths"], kind="stable")
    picks = by_length[np.linspace(0, len(by_length) - 1, COMPANIONS).astype(int)]
    return Sequences.of(arrays["input_ids"], arrays["lengths"]).take(picks)


def test_corpus_spans_all_lengths(reference: Reference) -> None:
    lengths = reference.arrays["lengths"]
    assert len(lengths) >= 200
    assert (lengths.min(), lengths.max()) == (2, texts.LIMIT_TOKENS)


def test_token_ids_equal_the_reference(load: Load, reference: Reference) -> None:
    encoded = load("float32", "plain").tokenizer.encode(texts.corpus())
    ids = list(archive.unpack(encoded.input_ids, encoded.lengths))
    expected = archive.unpack(reference.arrays["input_ids"], reference.arrays["lengths"])
    for text, actual, wanted in zip(texts.corpus(), ids, expected, strict=True):
        assert actual.tolist() == wanted.tolist(), repr(text)
    assert encoded.truncated == 0


def test_long_texts_are_cut_as_in_the_reference(load: Load, reference: Reference) -> None:
    pipeline = load("float32", "plain")
    encoded = pipeline.tokenizer.encode(texts.over_long(), truncate=True)
    assert encoded.truncated == len(texts.over_long())
    np.testing.assert_array_equal(encoded.lengths, reference.arrays["over_long_lengths"])
    np.testing.assert_array_equal(encoded.input_ids, reference.arrays["over_long_input_ids"])
    vectors = pipeline.rows(Sequences.encoded(encoded))
    assert cosines(vectors, reference.arrays["over_long_vectors"]).min() >= MIN_COSINE


@pytest.mark.parametrize("kernels", KERNELS)
def test_float32_vectors_equal_sentence_transformers(
    vectors_of: VectorsOf, reference: Reference, kernels: str
) -> None:
    vectors = vectors_of("float32", kernels)
    assert vectors.dtype == np.float32
    assert cosines(vectors, reference.arrays["vectors"]).min() >= MIN_COSINE
    np.testing.assert_allclose(vectors, reference.arrays["vectors"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kernels", KERNELS)
def test_bfloat16_vectors_are_close_to_sentence_transformers_in_float32(
    vectors_of: VectorsOf, reference: Reference, kernels: str
) -> None:
    near = cosines(vectors_of("bfloat16", kernels), reference.arrays["vectors"])
    assert near.min() >= MIN_COSINE_BFLOAT16
    assert near.mean() >= MIN_MEAN_COSINE_BFLOAT16


@pytest.mark.parametrize("kernels", KERNELS)
def test_cosines_are_the_published_ones(load: Load, kernels: str) -> None:
    pipeline = load("float32", kernels)
    encoded = pipeline.tokenizer.encode([*texts.KNOWN, "This is an example sentence"])
    vectors = pipeline.rows(Sequences.encoded(encoded))
    first, second, third, example = vectors
    published = {"1-2": 0.6660, "1-3": 0.1046, "2-3": 0.1411}
    actual = {"1-2": first @ second, "1-3": first @ third, "2-3": second @ third}
    assert actual == pytest.approx(published, abs=1e-4)
    assert example[:3] == pytest.approx([0.0676569, 0.0634959, 0.0487131], abs=1e-6)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_vector_is_the_same_alone(
    load: Load, companions: Sequences, dtype: str, kernels: str
) -> None:
    pipeline = load(dtype, kernels)
    alone = [[i] for i in range(len(companions))]
    assert_same(pipeline.rows(companions), pipeline.rows_by(companions, alone), dtype)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_vector_is_the_same_among_many(
    load: Load, vectors_of: VectorsOf, sequences: Sequences, dtype: str, kernels: str
) -> None:
    everything = [list(range(len(sequences)))[::-1]]
    together = load(dtype, kernels).rows_by(sequences, everything)
    assert_same(vectors_of(dtype, kernels), together, dtype)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_vector_is_the_same_in_any_shard_and_order(
    load: Load, companions: Sequences, dtype: str, kernels: str
) -> None:
    pipeline = load(dtype, kernels)
    expected = pipeline.rows(companions)

    @settings(max_examples=8, deadline=None, database=None)
    @given(partitions(len(companions)))
    def holds(batches: list[list[int]]) -> None:
        assert_same(expected, pipeline.rows_by(companions, batches), dtype)

    holds()


@st.composite
def partitions(draw: st.DrawFn, size: int) -> list[list[int]]:
    """All of 0..size-1, in any order, dealt into batches of any size."""
    order = draw(st.permutations(range(size)))
    cuts = sorted(draw(st.sets(st.integers(1, size - 1), max_size=6)))
    return [order[start:end] for start, end in zip([0, *cuts], [*cuts, size], strict=True)]


def assert_same(rows: Rows, others: Rows, dtype: str) -> None:
    if dtype == "float32":
        assert np.abs(rows - others).max() <= MAX_DIFFERENCE_BY_BATCH
    else:
        assert cosines(rows, others).min() >= MIN_COSINE_BY_BATCH_BFLOAT16
