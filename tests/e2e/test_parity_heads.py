"""Every head, pooling and chain of modules gives what the reference libraries give.

Families have a test of their own; here each checkpoint is asked for what its head answers.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from cpu_paths import KERNELS, OUR_KERNELS
from numpy.typing import NDArray
from reference.archive import Reference
from reference.pipeline import Sequences, normalised
from reference.zoo import checkpoint as files
from reference.zoo import values
from reference.zoo.checkpoint import Checkpoint
from reference.zoo.registry import GROUPS
from safetensors.torch import load_file, save_file

from checkpoint.find import find_model
from checkpoint.read import ReadOptions, read_model
from checkpoint.spec import ModelSpec
from engine.batch import Batch, Kind
from engine.engine import Engine, EngineConfig
from engine.lazy import StepOutput

Rows = NDArray[np.float32]

KINDS: dict[str, Kind] = {
    "vectors": "embed",
    "spans": "embed",
    "tokens": "tokens",
    "multi_vectors": "tokens",
    "sparse": "sparse",
    "lexical": "sparse",
}  # score otherwise
CHECKPOINTS: dict[str, Checkpoint] = {
    name: checkpoint
    for group, checkpoints in GROUPS.items()
    for name, checkpoint in checkpoints.items()
    if group in ("poolings", "cross-encoders", "token-heads") or checkpoint.answer == "scores"
}
# Details of the layers below are for the families' tests; these are of what stands above them.
ABOVE = re.compile(
    "the head|pooler|classifier|pooled|Dense|decoder|yes and no|logarithm|largest|summed|the norm$"
)
MUTANTS = [
    (name, detail)
    for name, checkpoint in CHECKPOINTS.items()
    for detail in checkpoint.mutants
    if ABOVE.search(detail)
]


@dataclass(frozen=True, eq=False)
class Served:
    """A checkpoint of the zoo, asked for what it answers."""

    checkpoint: Checkpoint
    spec: ModelSpec
    engine: Engine

    @classmethod
    def load(cls, name: str, directory: Path, kernels: str = "plain") -> "Served":
        checkpoint = CHECKPOINTS[name]
        convert_pickles(directory)
        scores = checkpoint.answer in ("yes_no", "logit_score")
        options = ReadOptions(task="score" if scores else None)
        spec, files = read_model(find_model(str(directory)), options)
        config = EngineConfig(dtype="float32", kernels=kernels)
        return cls(checkpoint, spec, Engine.load(spec, files, config))

    @property
    def kind(self) -> Kind:
        return KINDS.get(self.checkpoint.answer, "score")

    def rows(self, inputs: "Inputs", batches: Sequence[Sequence[int]]) -> Rows:
        """As the reference has them, in the order of the inputs; computed in these batches."""
        answers: dict[int, Rows] = {}
        for indices in batches:
            output = self.engine.step(inputs.batch(indices, self.kind)).wait()
            assert output.finite.all()
            answers.update(zip(indices, self._split(output, len(indices)), strict=True))
        rows = np.concatenate([answers[i] for i in range(len(inputs.sequences))])
        return normalised(rows) if self.checkpoint.unit_rows else rows

    def _split(self, output: StepOutput, sequences: int) -> Iterator[Rows]:
        offsets = output.row_offsets
        if offsets is None:
            offsets = np.arange(sequences + 1, dtype=np.int32)
        for start, end in pairwise(offsets):
            if output.indices is None:
                yield output.rows[start:end]
            else:
                row = np.zeros((1, self.spec.vocab_size), np.float32)
                row[0, output.indices[start:end]] = output.rows[start:end, 0]
                yield row


def convert_pickles(directory: Path) -> None:
    """bge-m3's heads, as an operator converts them: the engine reads no pickle."""
    for path in directory.glob("*_linear.pt"):
        save_file(torch.load(path, weights_only=True), path.with_suffix(".safetensors"))
        path.unlink()


@dataclass(frozen=True, eq=False)
class Inputs:
    sequences: Sequences
    spans: NDArray[np.int32] | None  # [S, 3]

    @classmethod
    def stored(cls, reference: Reference, key: str, spec: ModelSpec) -> "Inputs":
        sequences = Sequences.stored(reference, key)
        spans = reference.arrays.get(f"{key}/spans")
        if not spec.include_prompt:  # the span that is pooled starts behind it
            prompts = reference.arrays[f"{key}/prompt_tokens"]
            lengths = [ids.size for ids in sequences.input_ids]
            spans = np.stack([np.arange(len(sequences)), prompts, lengths], 1).astype(np.int32)
        return cls(sequences, spans)

    def batch(self, indices: Sequence[int], kind: Kind) -> Batch:
        chosen = self.sequences.take(indices)
        spans = None
        if self.spans is not None:
            owned = [self.spans[self.spans[:, 0] == i] for i in indices]
            spans = np.concatenate(owned)
            spans[:, 0] = np.repeat(np.arange(len(indices)), [len(rows) for rows in owned])
        return Batch(
            kind,
            np.concatenate(chosen.input_ids),
            np.array([ids.size for ids in chosen.input_ids], np.int32),
            np.concatenate(chosen.type_ids),
            spans,
        )


def batches_of(count: int) -> list[list[int]]:
    """Of mixed lengths, in another order than the reference's."""
    order = np.random.Generator(np.random.PCG64(0)).permutation(count).tolist()
    return [order[start : start + 24] for start in range(0, count, 24)]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Layers this small gain nothing from more, and wait for them where cores are shared."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=CHECKPOINTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def reference(name: str) -> Reference:
    return values.read(values.GROUP_OF[name])


@pytest.fixture(scope="module")
def directory(name: str, reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return values.write_checkpoint(name, reference, tmp_path_factory.mktemp("zoo") / name)


@pytest.mark.parametrize("kernels", KERNELS)
def test_answers_equal_the_reference(
    name: str, directory: Path, reference: Reference, kernels: str
) -> None:
    served = Served.load(name, directory, kernels)
    for key in ("texts", "pairs", "sequences"):
        if f"{name}/{key}/rows" in reference.arrays:
            inputs = Inputs.stored(reference, f"{name}/{key}", served.spec)
            rows = served.rows(inputs, batches_of(len(inputs.sequences)))
            expected = reference.arrays[f"{name}/{key}/rows"]
            assert rows.shape == expected.shape, key
            assert np.abs(rows - expected).max() <= served.checkpoint.tolerance, key


def test_answer_does_not_depend_on_its_batch(
    name: str, directory: Path, reference: Reference
) -> None:
    served = Served.load(name, directory)
    inputs = Inputs.stored(reference, f"{name}/sequences", served.spec)
    alone = served.rows(inputs, [[i] for i in range(len(inputs.sequences))])
    expected = reference.arrays[f"{name}/sequences/rows"]
    assert np.abs(alone - expected).max() <= served.checkpoint.tolerance


@pytest.mark.parametrize("name", ["qwen2-scores", "qwen3-scores"])
def test_padding_behind_a_text_does_not_change_its_score(name: str, tmp_path: Path) -> None:
    files.write(name, CHECKPOINTS[name], tmp_path)
    pad = json.loads((tmp_path / "config.json").read_text())["pad_token_id"]
    served = Served.load(name, tmp_path)
    reference = values.read(values.GROUP_OF[name])
    stored = Sequences.stored(reference, f"{name}/sequences").input_ids
    texts = [ids for ids in stored if ids.size < 50 and ids[-1] != pad]
    expected = scores(served, texts)
    assert np.ptp(expected) > 100 * served.checkpoint.tolerance
    for count in (1, 2, 3):
        padded = [np.append(ids, [pad] * count).astype(np.int32) for ids in texts]
        difference = np.abs(scores(served, padded) - expected).max()
        assert difference <= served.checkpoint.tolerance


# What transformers 5 gives for each sequence on its own; 510 is the padding.
PADDED = [[3, 40, 99, 510], [3, 510, 40, 510, 510], [510], [510] * 3, [510, 510, 7, 8]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen2-scores", [1.528851, 0.988797, -1.118050, -1.118050, 2.090001]),
        ("qwen3-scores", [0.926834, -0.565166, -1.429862, -1.429863, 2.066192]),
    ],
)
def test_padding_within_a_text_is_passed_over_as_in_the_reference(
    name: str, expected: list[float], tmp_path: Path
) -> None:
    files.write(name, CHECKPOINTS[name], tmp_path)
    served = Served.load(name, tmp_path)
    rows = scores(served, [np.array(ids, np.int32) for ids in PADDED])
    assert np.abs(rows[:, 0] - expected).max() <= served.checkpoint.tolerance


def scores(served: Served, texts: Sequence[NDArray[np.int32]]) -> Rows:
    lengths = np.array([ids.size for ids in texts], np.int32)
    return served.engine.step(Batch("score", np.concatenate(texts), lengths)).wait().rows


def misses(name: str, directory: Path, kernels: str = "plain") -> bool:
    """By ten times the tolerance."""
    reference = values.read(values.GROUP_OF[name])
    served = Served.load(name, directory, kernels)
    inputs = Inputs.stored(reference, f"{name}/sequences", served.spec)
    rows = served.rows(inputs, batches_of(len(inputs.sequences)))
    distance = np.abs(rows - reference.arrays[f"{name}/sequences/rows"]).max()
    return bool(distance >= 10 * served.checkpoint.tolerance)


@pytest.mark.parametrize("kernels", OUR_KERNELS)
@pytest.mark.parametrize(("original", "detail"), MUTANTS)
def test_wrong_detail_would_be_noticed(
    original: str, detail: str, kernels: str, tmp_path: Path
) -> None:
    assert misses(original, values.write_mutant(original, detail, tmp_path / original), kernels)


@pytest.mark.parametrize(
    ("original", "head"),
    [("bge-m3-lexical", "sparse_linear"), ("bge-m3-multi-vectors", "colbert_linear")],
)
def test_lost_bias_of_a_head_beside_the_modules_would_be_noticed(
    original: str, head: str, tmp_path: Path
) -> None:
    files.write(original, CHECKPOINTS[original], tmp_path)
    convert_pickles(tmp_path)
    tensors = load_file(tmp_path / f"{head}.safetensors")
    tensors["bias"] = torch.zeros_like(tensors["bias"])
    save_file(tensors, tmp_path / f"{head}.safetensors")
    assert misses(original, tmp_path)
