"""Which rows of which sequence a program of ragged attention computes."""

import numpy as np
from numpy.typing import NDArray


def tile_count(tokens: int, slots: int, block: int) -> int:
    """As many tiles as `slots` sequences and a dummy tail of `tokens` in all can need.

    Each sequence ends in at most one tile that is not full.
    """
    return -(-tokens // block) + slots + 1


def fill_tiles(lengths: NDArray[np.int32], block: int, out: NDArray[np.int32]) -> None:
    """Cut sequences into tiles of `block` rows. `out` [N, 2]: (sequence, first row), or -1 twice.

    `lengths` [S + 1], the dummy tail last; none of it is cut where a length is 0. Sequences come in
    ascending length, so the last ones come first: the longest work is not what the others wait for.
    """
    counts = -(-lengths[::-1].astype(np.int64) // block)
    ends = np.cumsum(counts)
    used = int(ends[-1])
    out[:used, 0] = np.repeat(np.arange(lengths.size - 1, -1, -1), counts)
    out[:used, 1] = (np.repeat(ends, counts) - 1 - np.arange(used)) * block
    out[used:] = -1
