"""Sequences are cut so that every row is computed once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.triton_kernels.tiles import fill_tiles, tile_count
from engine.triton_kernels.tuning import tuning

STALE = 12345


@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=20),
    block=st.sampled_from([16, 32, 64, 128]),
)
def test_each_row_is_in_one_tile(lengths: list[int], block: int) -> None:
    tiles = np.full((tile_count(sum(lengths), len(lengths) - 1, block), 2), STALE, np.int32)
    fill_tiles(np.array(lengths, np.int32), block, tiles)
    rows = [
        (sequence, row)
        for sequence, first in tiles.tolist()
        if sequence >= 0
        for row in range(first, min(first + block, lengths[sequence]))
    ]
    assert sorted(rows) == [(i, row) for i, length in enumerate(lengths) for row in range(length)]


@given(lengths=st.lists(st.integers(0, 300), min_size=1, max_size=20))
def test_tiles_that_are_not_needed_are_marked_whatever_was_there(lengths: list[int]) -> None:
    tiles = np.full((tile_count(sum(lengths) + 500, len(lengths) + 7, 64), 2), STALE, np.int32)
    fill_tiles(np.array(lengths, np.int32), 64, tiles)
    used = sum(-(-length // 64) for length in lengths)
    assert (tiles[:used] >= 0).all()
    assert (tiles[used:] == -1).all()


def test_the_longest_work_comes_first() -> None:
    tiles = np.empty((tile_count(230, 3, 64), 2), np.int32)
    fill_tiles(np.array([0, 60, 170, 0], np.int32), 64, tiles)
    assert tiles[:4].tolist() == [[2, 128], [2, 64], [2, 0], [1, 0]]


@pytest.mark.parametrize("element_bytes", [2, 4])
@pytest.mark.parametrize("tokens", [1, 1024, 1025, 32768])
def test_each_head_has_tiles_that_fit_it(tokens: int, element_bytes: int) -> None:
    areas = []
    for head_dim in range(8, 257, 8):
        tuned = tuning(head_dim, tokens, slots=1, element_bytes=element_bytes)
        assert {size & (size - 1) for size in (tuned.block_m, tuned.block_n, tuned.warps)} == {0}
        areas.append(tuned.block_m * tuned.block_n)
    assert areas == sorted(areas, reverse=True)


def test_short_sequences_have_low_tiles() -> None:
    assert tuning(64, 128 * 32, slots=32).block_m < tuning(64, 128 * 32 + 64, slots=32).block_m


def test_few_tokens_make_many_programs() -> None:
    assert tuning(64, 1024, slots=1).block_m < tuning(64, 1152, slots=1).block_m


def test_a_head_that_is_too_wide_is_refused() -> None:
    with pytest.raises(ValueError, match="257"):
        tuning(257, 100, slots=1)
