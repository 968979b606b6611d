"""Texts are cut into steps as a worker would."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench.gpu.loads import Load, batches_of, mixed, uniform


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(50, 200))
def test_steps_hold_whole_texts_in_their_order_and_no_more_than_they_may(
    lengths: list[int], max_tokens: int
) -> None:
    steps = list(Load("", tuple(lengths)).steps(max_tokens, max_texts=7))
    assert [length for step in steps for length in step] == lengths
    assert all(sum(step) <= max_tokens and len(step) <= 7 for step in steps)
    for step, following in pairwise(steps):
        assert len(step) == 7 or sum(step) + following[0] > max_tokens


def test_a_hundred_texts_of_512_tokens_are_two_steps() -> None:
    steps = list(uniform(100, 512).steps(32_768))
    assert [len(step) for step in steps] == [64, 36]


def test_batches_hold_the_load_and_differ() -> None:
    first, second = batches_of(uniform(4, 10), vocabulary=50, max_tokens=20)
    assert first.lengths.tolist() == second.lengths.tolist() == [10, 10]
    assert not np.array_equal(first.input_ids, second.input_ids)
    assert first.input_ids.min() >= 3  # no padding


def test_mixed_lengths_come_in_no_order() -> None:
    lengths = tuple(range(1, 30))
    load = mixed("mixed", lengths)
    assert sorted(load.lengths) == list(lengths)
    assert load.lengths != lengths
