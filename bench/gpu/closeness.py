"""How near vectors come to those that they should be."""

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]  # [N, D]

# bfloat16 keeps 8 bits and rounds after every kernel: over some thirty layers a vector turns by
# 1 - cosine of 1e-4. What is wrong (a mask, a position, a neighbour's token) turns it by far more.
MIN_COSINE = 0.999


def least_cosine(vectors: Vectors, others: Vectors) -> float:
    """Of each vector with its counterpart, the least; NaN where one is none."""
    return float((_units(vectors) * _units(others)).sum(axis=1).min())


def other_cosine(vectors: Vectors) -> float | None:
    """The median of different vectors: what the cosine of a wrong one would be."""
    if len(vectors) < 2:
        return None
    cosines = _units(vectors) @ _units(vectors).T
    return float(np.median(cosines[np.triu_indices(len(vectors), 1)]))


def largest_error(vectors: Vectors, others: Vectors) -> float:
    """The length of a difference over that of the vector, of `others`; the largest."""
    differences = np.linalg.norm(vectors.astype(np.float64) - others, axis=1)
    return float((differences / np.linalg.norm(others.astype(np.float64), axis=1)).max())


def _units(vectors: Vectors) -> NDArray[np.float64]:
    wide = vectors.astype(np.float64)
    units: NDArray[np.float64] = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    return units
