"""Token sequences for engine tests: made, batched, run and compared."""

from collections.abc import Sequence

import numpy as np

from engine.batch import Batch, Kind
from engine.engine import Engine

Ids = np.ndarray  # [tokens] int32


def random_sequences(lengths: Sequence[int], vocabulary: int, seed: int = 0) -> list[Ids]:
    random = np.random.default_rng(seed)
    return [random.integers(0, vocabulary, length).astype(np.int32) for length in lengths]


def batch_of(
    sequences: Sequence[Ids], types: Sequence[np.ndarray] | None = None, kind: Kind = "embed"
) -> Batch:
    return Batch(
        kind=kind,
        input_ids=np.concatenate(sequences),
        lengths=np.array([len(s) for s in sequences], dtype=np.int32),
        type_ids=None if types is None else np.concatenate(types).astype(np.uint8),
    )


def rows_of(engine: Engine, sequences: Sequence[Ids]) -> np.ndarray:
    return engine.step(batch_of(sequences, kind=engine.spec.task)).wait().rows


def normalised(rows: np.ndarray) -> np.ndarray:
    wide = rows.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return (normalised(left) * normalised(right)).sum(axis=1)
