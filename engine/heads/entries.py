"""A sparse vector a sequence, as the weights that are not zero and the token ids they belong to."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.heads.head import Answer, Rows


def entries(
    sequences: NDArray[np.intp], ids: NDArray[Any], weights: Rows, batch_sequences: int
) -> Answer:
    """Of N weights, sorted by the sequence [N] and then the id [N] they belong to."""
    counts = np.bincount(sequences, minlength=batch_sequences)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Answer(weights[:, None], offsets.astype(np.int32), ids.astype(np.int32))
