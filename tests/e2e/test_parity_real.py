"""Real weights give the reference's values: multilingual-e5-small and a tiny SPLADE.

From text to row: in four languages with the prompts of the model, and in English.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from cpu_paths import KERNELS
from numpy.typing import NDArray
from reference import archive, package_texts, real_texts
from reference.archive import Reference
from reference.pipeline import Pipeline, Sequences, cosines
from reference.rebuild_e5 import write_e5
from reference.rebuild_splade import write_splade

from checkpoint.find import find_model
from checkpoint.prompts import PromptChoice, prompt_of
from checkpoint.read import read_model, read_tokenizer
from checkpoint.tokenizer import TextTokenizer
from engine.batch import Batch

MAX_DIFFERENCE = 1e-5  # of a float32 vector's value; the vectors are of unit length
MIN_COSINE = 0.99999
MIN_COSINE_BFLOAT16, MIN_MEAN_COSINE_BFLOAT16 = 0.999, 0.9999
MAX_WEIGHT_DIFFERENCE = 1e-4
STEP_TEXTS = 20


@pytest.fixture(scope="session")
def e5() -> Iterator[Path]:
    with TemporaryDirectory() as folder:  # pytest would keep the 240 MB
        directory = Path(folder) / "multilingual-e5-small"
        write_e5(directory)
        yield directory


@pytest.fixture(scope="session")
def splade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "splade-tiny"
    write_splade(directory)
    return directory


@pytest.fixture(scope="module")
def vectors(e5: Path) -> Reference:
    return reference_of(e5, "e5.npz")


@pytest.fixture(scope="module")
def weights(splade: Path) -> Reference:
    return reference_of(splade, "splade.npz")


def reference_of(directory: Path, name: str) -> Reference:
    """Raises where the values were made from other weights or texts."""
    reference = archive.read(name)
    for key, actual in (
        ("weights_sha256", archive.sha256(directory / "model.safetensors")),
        ("texts_sha256", package_texts.sha256()),
    ):
        assert actual == reference.header[key], f"{key} changed: run make_real.py again"
    return reference


@pytest.fixture(scope="module")
def sequences(e5: Path, vectors: Reference) -> Sequences:
    """Asked for as clients do, by an input type that means one of the model's prompts."""
    spec, files = read_model(find_model(str(e5)))
    tokenizer = TextTokenizer(read_tokenizer(files.directory), spec.max_tokens, spec.vocab_size)
    rows = []
    for prompted in real_texts.e5():
        name, _, text = prompted.partition(": ")
        use = {"query": "search_query", "passage": "search_document"}[name]
        prompt = prompt_of(spec, PromptChoice(use=use))
        rows.append(tokenizer.encode([text], prompt=prompt, truncate=True))
    assert sum(row.truncated for row in rows) >= 20
    ids = [row.input_ids for row in rows]
    assert_same_ids(ids, vectors)
    return Sequences(ids, [np.zeros(row.size, np.uint8) for row in ids])


@pytest.mark.parametrize("kernels", KERNELS)
def test_float32_vectors_equal_sentence_transformers(
    e5: Path, sequences: Sequences, vectors: Reference, kernels: str
) -> None:
    rows = Pipeline.load(e5, "float32", kernels).rows(sequences)
    np.testing.assert_allclose(rows, vectors.arrays["vectors"], rtol=0, atol=MAX_DIFFERENCE)
    assert cosines(rows, vectors.arrays["vectors"]).min() >= MIN_COSINE


@pytest.mark.parametrize("kernels", KERNELS)
def test_bfloat16_vectors_are_close_to_sentence_transformers_in_float32(
    e5: Path, sequences: Sequences, vectors: Reference, kernels: str
) -> None:
    rows = Pipeline.load(e5, "bfloat16", kernels).rows(sequences)
    near = cosines(rows, vectors.arrays["vectors"])
    assert near.min() >= MIN_COSINE_BFLOAT16
    assert near.mean() >= MIN_MEAN_COSINE_BFLOAT16


@pytest.mark.parametrize("kernels", KERNELS)
def test_sparse_weights_equal_sentence_transformers(
    splade: Path, weights: Reference, kernels: str
) -> None:
    pipeline = Pipeline.load(splade, "float32", kernels)
    sequences = Sequences.encoded(pipeline.tokenizer.encode(real_texts.splade(), truncate=True))
    assert_same_ids(sequences.input_ids, weights)
    offsets = weights.arrays["row_offsets"].tolist()
    expected = [
        (weights.arrays["indices"][start:end], weights.arrays["weights"][start:end])
        for start, end in pairwise(offsets)
    ]
    for start in range(0, len(sequences), STEP_TEXTS):
        chosen = range(start, min(start + STEP_TEXTS, len(sequences)))
        output = pipeline.engine.step(sparse_batch(sequences.take(chosen))).wait()
        assert output.indices is not None
        assert output.row_offsets is not None
        for i, (first, end) in zip(chosen, pairwise(output.row_offsets), strict=True):
            ids, values = expected[i]
            np.testing.assert_array_equal(output.indices[first:end], ids)
            np.testing.assert_allclose(
                output.rows[first:end, 0], values, rtol=0, atol=MAX_WEIGHT_DIFFERENCE
            )


def sparse_batch(sequences: Sequences) -> Batch:
    lengths = np.array([ids.size for ids in sequences.input_ids], np.int32)
    return Batch("sparse", np.concatenate(sequences.input_ids), lengths)


def assert_same_ids(rows: Sequence[NDArray[np.int32]], reference: Reference) -> None:
    expected = archive.unpack(reference.arrays["input_ids"], reference.arrays["lengths"])
    for row, wanted in zip(rows, expected, strict=True):
        np.testing.assert_array_equal(row, wanted)
