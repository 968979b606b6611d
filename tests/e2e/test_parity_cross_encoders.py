"""Cross-encoders give transformers' logits, and these tests would notice if they did not."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from cpu_paths import KERNELS, OUR_KERNELS
from reference import mutants, sharp, sharp_inputs, sharp_reference
from reference.archive import Reference
from reference.mutants import Mutant
from reference.pipeline import Pipeline, Rows, Sequences

MAX_DIFFERENCE = 5e-5  # of a logit, which may be as large as 4
CROSS_ENCODERS = [name for name, recipe in sharp.CHECKPOINTS.items() if recipe.scores]
MUTANTS: Mapping[str, Mapping[str, Mutant]] = {
    "bert-scores": mutants.BERT_SCORES,
    "roberta-scores": mutants.ROBERTA_SCORES,
    "xlm-roberta-scores": mutants.ROBERTA_SCORES,
}


@pytest.fixture(scope="module")
def reference() -> Reference:
    return sharp_reference.read()


@pytest.fixture(scope="module", params=CROSS_ENCODERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def directory(name: str, reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sharp_reference.write_checkpoint(
        name, reference, tmp_path_factory.mktemp("sharp") / name
    )


def test_pairs_have_the_ids_and_types_of_the_reference(
    name: str, directory: Path, reference: Reference
) -> None:
    tokenizer = Pipeline.load(directory).tokenizer
    stored = Sequences.stored(reference, f"{name}/pairs")
    start = 0
    for asked in sharp_inputs.pairs():
        encoded = Sequences.encoded(tokenizer.encode_pairs(asked.query, asked.documents))
        expected = stored.take(range(start, start + len(asked.documents)))
        start += len(asked.documents)
        for i, document in enumerate(asked.documents):
            assert encoded.input_ids[i].tolist() == expected.input_ids[i].tolist(), document
            assert encoded.type_ids[i].tolist() == expected.type_ids[i].tolist(), document
    assert start == len(stored)


@pytest.mark.parametrize("kernels", KERNELS)
def test_logits_equal_transformers(
    name: str, directory: Path, reference: Reference, kernels: str
) -> None:
    pipeline = Pipeline.load(directory, kernels=kernels)
    assert (pipeline.spec.task, pipeline.spec.dim) == ("score", 1)
    for key in ("pairs", "sequences"):
        logits = pipeline.rows(Sequences.stored(reference, f"{name}/{key}"))
        assert difference(logits, reference, f"{name}/{key}") <= MAX_DIFFERENCE, key


@pytest.mark.parametrize("kernels", KERNELS)
def test_logit_does_not_depend_on_its_batch(
    name: str, directory: Path, reference: Reference, kernels: str
) -> None:
    pipeline = Pipeline.load(directory, kernels=kernels)
    pairs = Sequences.stored(reference, f"{name}/pairs")
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(pairs)).tolist()
    for batches in ([[i] for i in order], [order], [order[:7], order[7:60], order[60:]]):
        logits = pipeline.rows_by(pairs, batches)
        assert difference(logits, reference, f"{name}/pairs") <= MAX_DIFFERENCE


@pytest.mark.parametrize("kernels", OUR_KERNELS)
@pytest.mark.parametrize(
    ("original", "detail"), [(name, detail) for name in MUTANTS for detail in MUTANTS[name]]
)
def test_wrong_detail_would_be_noticed(
    original: str, detail: str, kernels: str, reference: Reference, tmp_path: Path
) -> None:
    mutants.write_mutant(original, MUTANTS[original][detail], tmp_path)
    pipeline = Pipeline.load(tmp_path, kernels=kernels)
    logits = pipeline.rows(Sequences.stored(reference, f"{original}/pairs"))
    assert difference(logits, reference, f"{original}/pairs") >= 10 * MAX_DIFFERENCE


def test_ignored_token_types_would_be_noticed(reference: Reference, tmp_path: Path) -> None:
    sharp.write_checkpoint("bert-scores", tmp_path)
    pairs = Sequences.stored(reference, "bert-scores/pairs")
    untyped = Sequences(pairs.input_ids, [np.zeros_like(types) for types in pairs.type_ids])
    logits = Pipeline.load(tmp_path).rows(untyped)
    assert difference(logits, reference, "bert-scores/pairs") >= 10 * MAX_DIFFERENCE


def difference(rows: Rows, reference: Reference, key: str) -> float:
    return float(np.abs(rows - reference.arrays[f"{key}/rows"]).max())
