"""A few fixed inputs, computed together and alone: what differs is wrong for every user."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkpoint.spec import ModelSpec
from engine.batch import Batch
from engine.errors import SelfTestFailed
from engine.lazy import LazyTensor

Rows = NDArray[np.float32]
Step = Callable[[Batch], LazyTensor]

# A single token, the sizes of queries, one past a power of two, and documents on both sides of the
# length where attention changes its implementation.
_LENGTHS = (1, 2, 16, 33, 128, 300)

# A row is the same sum in another order: products of matrices are blocked by the number of tokens.
# float32 rounds at 6e-8 and a dozen layers make that 1e-6 in a normalised row; bfloat16 keeps 8
# bits, so two orders of one sum differ in the last of them and a row turns by 1 - cosine = 5e-5.
# What is wrong (a mask, a position, a neighbour's token) moves a row by 1e-2 or more.
_MAX_ABS_DIFF = {"float32": 2e-5}
_MIN_COSINE = {"bfloat16": 0.9995}
# A logit has no length to normalise by: the difference is relative to max(1, |logit|).
_MAX_LOGIT_DIFF = {"float32": 1e-4, "bfloat16": 0.1}


@dataclass(frozen=True)
class SelfTest:
    """How far rows computed together are from the same rows computed alone."""

    sequences: int
    max_abs_diff: float  # of normalised rows; of logits, over max(1, |logit|)
    min_cosine: float | None  # None for scores

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def run_self_test(step: Step, spec: ModelSpec, dtype: str) -> SelfTest:
    """Raises SelfTestFailed, saying which limit was passed by how much."""
    sequences = fixed_sequences(spec)
    together = _rows(step, spec, sequences)
    alone = np.concatenate([_rows(step, spec, [sequence]) for sequence in sequences])
    if not (np.isfinite(together).all() and np.isfinite(alone).all()):
        raise SelfTestFailed(f"{spec.id}: a row of the self-test is not finite")
    if spec.task == "score":
        return _compare_logits(together, alone, dtype)
    return _compare_vectors(together, alone, dtype)


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


def _rows(step: Step, spec: ModelSpec, sequences: Sequence[NDArray[np.int32]]) -> Rows:
    lengths = np.array([sequence.size for sequence in sequences], dtype=np.int32)
    return step(Batch(spec.task, np.concatenate(sequences), lengths)).wait().rows


def _compare_logits(together: Rows, alone: Rows, dtype: str) -> SelfTest:
    difference = float((np.abs(together - alone) / np.maximum(1, np.abs(alone))).max())
    _hold(
        difference <= _MAX_LOGIT_DIFF[dtype], "logits differ by", difference, _MAX_LOGIT_DIFF[dtype]
    )
    return SelfTest(len(alone), difference, None)


def _compare_vectors(together: Rows, alone: Rows, dtype: str) -> SelfTest:
    units, others = _normalised(together), _normalised(alone)
    difference = float(np.abs(units - others).max())
    cosine = float((units * others).sum(axis=1).min())
    if dtype in _MAX_ABS_DIFF:
        _hold(
            difference <= _MAX_ABS_DIFF[dtype], "rows differ by", difference, _MAX_ABS_DIFF[dtype]
        )
    if dtype in _MIN_COSINE:
        _hold(cosine >= _MIN_COSINE[dtype], "rows have a cosine of", cosine, _MIN_COSINE[dtype])
    return SelfTest(len(alone), difference, cosine)


def _normalised(rows: Rows) -> NDArray[np.float64]:
    wide = rows.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def _hold(holds: bool, what: str, measured: float, limit: float) -> None:
    if not holds:
        raise SelfTestFailed(
            f"together and alone, {what} {measured:.2e}, the limit being {limit:.2e}"
        )
