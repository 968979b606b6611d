"""What the zoo is asked besides the texts and pairs of `sharp_inputs`."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from reference import sharp_inputs

MARGIN = 8  # ids at both ends of a vocabulary that may be special tokens


@dataclass(frozen=True)
class Inputs:
    """Ids and token types of sequences, before padding."""

    input_ids: list[list[int]]
    type_ids: list[list[int]]

    def __len__(self) -> int:
        return len(self.input_ids)


def sequences(vocab_size: int, lengths: Iterable[int], types: int) -> Inputs:
    """Bare ids of every length; the second half of each is of type 1 where there are two."""
    generator = np.random.Generator(np.random.PCG64(3))
    width = vocab_size - 2 * MARGIN
    ids = [MARGIN + (generator.random(length) * width).astype(np.int32) for length in lengths]
    type_ids = sharp_inputs.type_ids(sequence.size for sequence in ids)
    return Inputs(
        [sequence.tolist() for sequence in ids],
        [(sequence % max(types, 1)).tolist() for sequence in type_ids],
    )


def spans(lengths: Iterable[int]) -> NDArray[np.int32]:
    """(sequence, start, end) [S, 3]: each sequence in up to three chunks with gaps between."""
    rows = []
    for sequence, length in enumerate(lengths):
        edges = sorted({0, length // 3, 2 * length // 3, length})
        for start, end in pairwise(edges):
            rows.append((sequence, start, end - (end - start > 2)))
    return np.array(rows, np.int32)
