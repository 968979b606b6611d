"""A few fixed inputs, computed together and alone: what differs is wrong for every user.

A reranker is also given known pairs, because a lost head or template computes soundly, but nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkpoint.spec import ModelSpec
from engine.batch import Batch, Kind
from engine.errors import SelfTestFailed
from engine.lazy import LazyTensor, StepOutput

Rows = NDArray[np.float32]
Step = Callable[[Batch], LazyTensor]

# A single token, the sizes of queries, one past a power of two, and documents on both sides of the
# length where attention changes its implementation.
_LENGTHS = (1, 2, 16, 33, 128, 300)

# A row is the same sum in another order: products of matrices are blocked by the number of tokens.
# float32 rounds at 6e-8 and a dozen layers make that 1e-6 in a normalised row; bfloat16 keeps 8
# bits, so two orders of one sum differ in the last of them and a row turns by 1 - cosine = 5e-5;
# float16 keeps three bits more.
# What is wrong (a mask, a position, a neighbour's token) moves a row by 1e-2 or more.
_MAX_ABS_DIFF = {"float32": 2e-5}
_MIN_COSINE = {"bfloat16": 0.9995, "float16": 0.9999}
# A logit has no length to normalise by: the difference is relative to max(1, |logit|).
_MAX_LOGIT_DIFF = {"float32": 1e-4, "bfloat16": 0.1, "float16": 0.02}
# A head that reads its input never gives a relevant and an irrelevant text logits this close.
_MIN_SPREAD = 1e-4


@dataclass(frozen=True)
class SelfTest:
    """How far rows computed together are from the same rows computed alone."""

    sequences: int
    max_abs_diff: float  # of normalised rows; of logits, over max(1, |logit|)
    min_cosine: float | None  # None for scores
    ranks_known_pair: bool | None = None  # the relevant text above the others; None: not asked

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Subject:
    """What is tested."""

    step: Step
    spec: ModelSpec
    dtype: str
    kinds: Sequence[Kind]  # that it answers


def run_self_test(subject: Subject, known_pairs: Sequence[Batch] = ()) -> SelfTest:
    """The worst of all kinds. Raises SelfTestFailed, saying which limit was passed by how much.

    Each batch of `known_pairs` is one query with several texts, the relevant one first.
    """
    sequences = fixed_sequences(subject.spec)
    compared = [_compare(subject, kind, sequences) for kind in subject.kinds]
    cosines = [cosine for _, cosine in compared if cosine is not None]
    return SelfTest(
        len(sequences),
        max(difference for difference, _ in compared),
        min(cosines, default=None),
        _ranks(subject, known_pairs) if known_pairs else None,
    )


def fixed_sequences(spec: ModelSpec) -> list[NDArray[np.int32]]:
    """Ids spread over the vocabulary, the same in every process. Longest in the middle."""
    lengths = sorted({min(length, spec.max_tokens) for length in _LENGTHS})
    lengths = lengths[::2] + lengths[1::2][::-1]
    # The golden ratio's multiples are spread evenly and never repeat.
    starts = np.cumsum([0, *lengths])
    return [
        (np.modf(np.arange(start, start + length) * 0.618033988749895)[0] * spec.vocab_size).astype(
            np.int32
        )
        for start, length in zip(starts, lengths, strict=False)
    ]


def _compare(
    subject: Subject, kind: Kind, sequences: Sequence[NDArray[np.int32]]
) -> tuple[float, float | None]:
    """The largest difference and the least cosine of rows together and alone."""
    together = _rows(subject, kind, sequences)
    alone = np.concatenate([_rows(subject, kind, [sequence]) for sequence in sequences])
    if kind == "score":
        return _compare_logits(together, alone, subject.dtype), None
    return _compare_vectors(together, alone, subject.dtype)


def _rows(subject: Subject, kind: Kind, sequences: Sequence[NDArray[np.int32]]) -> Rows:
    lengths = np.array([sequence.size for sequence in sequences], dtype=np.int32)
    output = _output(subject, Batch(kind, np.concatenate(sequences), lengths))
    if output.indices is None or output.row_offsets is None:
        return output.rows
    rows = np.zeros((len(sequences), subject.spec.vocab_size), dtype=np.float32)
    owners = np.repeat(np.arange(len(sequences)), np.diff(output.row_offsets))
    rows[owners, output.indices] = output.rows[:, 0]
    return rows


def _output(subject: Subject, batch: Batch) -> StepOutput:
    """As a step that is repeated will be: where a third one is replayed, the replay is tested."""
    output = subject.step(batch).wait()
    for _ in range(2):
        if output.launch == "eager":
            output = subject.step(batch).wait()
    if not output.finite.all():
        raise SelfTestFailed(f"{subject.spec.id}: a row of the self-test is not finite")
    return output


def _compare_logits(together: Rows, alone: Rows, dtype: str) -> float:
    difference = float((np.abs(together - alone) / np.maximum(1, np.abs(alone))).max())
    _hold(
        difference <= _MAX_LOGIT_DIFF[dtype], "logits differ by", difference, _MAX_LOGIT_DIFF[dtype]
    )
    return difference


def _compare_vectors(together: Rows, alone: Rows, dtype: str) -> tuple[float, float]:
    units, others = _normalised(together), _normalised(alone)
    difference = float(np.abs(units - others).max())
    cosine = float(1 - ((units - others) ** 2).sum(axis=1).max() / 2)  # of unit rows
    if dtype in _MAX_ABS_DIFF:
        _hold(
            difference <= _MAX_ABS_DIFF[dtype], "rows differ by", difference, _MAX_ABS_DIFF[dtype]
        )
    if dtype in _MIN_COSINE:
        _hold(cosine >= _MIN_COSINE[dtype], "rows have a cosine of", cosine, _MIN_COSINE[dtype])
    return difference, cosine


def _ranks(subject: Subject, known_pairs: Sequence[Batch]) -> bool:
    """Whether each relevant text is above the others of its query."""
    scores = [_output(subject, batch).rows[:, 0] for batch in known_pairs]
    # Of each query: a head that reads the query alone tells the queries apart, but no texts.
    spread = min(float(np.ptp(texts)) for texts in scores)
    if spread < _MIN_SPREAD:
        raise SelfTestFailed(
            f"{subject.spec.id}: every text of a query gets the same score, within {spread:.1e}: "
            "a lost head or template"
        )
    return all(bool((texts[0] > texts[1:]).all()) for texts in scores)


def _normalised(rows: Rows) -> NDArray[np.float64]:
    """Of unit length; a row of zeros, which a sparse vector may be, stays one."""
    wide = rows.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.where(lengths > 0, lengths, 1)


def _hold(holds: bool, what: str, measured: float, limit: float) -> None:
    if not holds:
        raise SelfTestFailed(
            f"together and alone, {what} {measured:.2e}, the limit being {limit:.2e}"
        )
