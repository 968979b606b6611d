"""Every family gives the vectors and logits of its reference, and would be noticed if it did not.

Windows and masks cross their edges by themselves: sequences have every length from 1 to the limit.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cpu_paths import KERNELS, ONLY_IN_CPP, OUR_KERNELS
from reference.archive import Reference
from reference.pipeline import Pipeline, Rows, Sequences
from reference.zoo import values
from reference.zoo.checkpoint import Checkpoint
from reference.zoo.registry import GROUPS

from engine.block import Block
from engine.cpu.blocks import CpuBlocks, cpu_blocks

pytestmark = pytest.mark.usefixtures("one_thread")

FAMILIES = ("bert-kin", "bidirectional", "gemma3", "llama", "modernbert", "mpnet", "rotary")
CHECKPOINTS: Mapping[str, Checkpoint] = {
    name: checkpoint for group in FAMILIES for name, checkpoint in GROUPS[group].items()
}
MUTANTS = [(name, detail) for name, zoo in CHECKPOINTS.items() for detail in zoo.mutants]
LEAST_MUTANT = 10  # in tolerances
# In place of the checkpoint's own tolerance: transformers' float32 is 7e-5 from float64 there.
ILL_CONDITIONED = {"new-untyped-cls": 2e-4}


@pytest.fixture(scope="module")
def references() -> Mapping[str, Reference]:
    return {group: values.read(group) for group in FAMILIES}


@pytest.fixture(scope="module", params=CHECKPOINTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def reference(name: str, references: Mapping[str, Reference]) -> Reference:
    return references[values.GROUP_OF[name]]


@pytest.fixture(scope="module")
def directory(name: str, reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return values.write_checkpoint(name, reference, tmp_path_factory.mktemp("zoo") / name)


@pytest.mark.parametrize("kernels", KERNELS)
def test_rows_equal_the_reference(
    name: str, directory: Path, reference: Reference, kernels: str
) -> None:
    pipeline = Pipeline.load(directory, kernels=kernels)
    for key in _inputs(name):
        rows = pipeline.rows(Sequences.stored(reference, f"{name}/{key}"))
        assert difference(rows, reference, f"{name}/{key}") <= tolerance(name), key


@pytest.mark.parametrize("kernels", KERNELS)
def test_row_does_not_depend_on_its_batch(
    name: str, directory: Path, reference: Reference, kernels: str
) -> None:
    pipeline = Pipeline.load(directory, kernels=kernels)
    sequences = Sequences.stored(reference, f"{name}/sequences")
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(sequences)).tolist()
    for batches in ([[i] for i in order], [order], [order[:3], order[3:20], order[20:]]):
        rows = pipeline.rows_by(sequences, batches)
        assert difference(rows, reference, f"{name}/sequences") <= tolerance(name)


@ONLY_IN_CPP
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_layers_in_one_call_have_the_bits_of_block_by_block(
    name: str, directory: Path, reference: Reference, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sequences, calls = Sequences.stored(reference, f"{name}/sequences"), []

    def spied(library: Any, blocks: Sequence[Block]) -> CpuBlocks | None:
        calls.append(cpu_blocks(library, blocks))
        return calls[-1]

    monkeypatch.setattr("engine.cpu.kernels.cpu_blocks", spied)
    together = Pipeline.load(directory, dtype, "cpu").rows(sequences)
    assert calls[0] is not None
    monkeypatch.setattr("engine.cpu.kernels.cpu_blocks", lambda library, blocks: None)
    np.testing.assert_array_equal(together, Pipeline.load(directory, dtype, "cpu").rows(sequences))


@pytest.mark.parametrize("kernels", OUR_KERNELS)
@pytest.mark.parametrize(("original", "detail"), MUTANTS)
def test_wrong_detail_would_be_noticed(
    original: str,
    detail: str,
    kernels: str,
    references: Mapping[str, Reference],
    tmp_path: Path,
) -> None:
    reference = references[values.GROUP_OF[original]]
    pipeline = Pipeline.load(values.write_mutant(original, detail, tmp_path), kernels=kernels)
    rows = pipeline.rows(Sequences.stored(reference, f"{original}/sequences"))
    moved = difference(rows, reference, f"{original}/sequences")
    assert moved >= LEAST_MUTANT * tolerance(original)
    # The reference was moved as far: what the detail stands for is read alike. Two digits are kept.
    assert moved == pytest.approx(reference.header["mutants"][original][detail], rel=0.06)


def difference(rows: Rows, reference: Reference, key: str) -> float:
    return float(np.abs(rows - reference.arrays[f"{key}/rows"]).max())


def tolerance(name: str) -> float:
    return ILL_CONDITIONED.get(name, CHECKPOINTS[name].tolerance)


def _inputs(name: str) -> tuple[str, str]:
    return "sequences", "pairs" if CHECKPOINTS[name].asks_pairs else "texts"
