"""Every pooling is what it says, over sequences and over their spans."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch
from hidden_states import HiddenStates
from torch import Tensor

from checkpoint.spec import Pooling
from engine.heads.pooled import PooledHead
from engine.kernels import plain_kernels
from engine.pooling import POOLINGS

POOL = plain_kernels(torch.float32).pool
LENGTHS = [7, 1, 40, 7, 150, 3]


def weighted_mean(tokens: Tensor, before: int = 0) -> Tensor:
    total = torch.zeros(tokens.shape[1], dtype=tokens.dtype)
    for place, token in enumerate(tokens, start=before + 1):
        total += place * token
    return total / sum(range(before + 1, before + 1 + len(tokens)))


DEFINITIONS: Mapping[Pooling, Callable[[Tensor], Tensor]] = {
    "cls": lambda tokens: tokens[0],
    "last_token": lambda tokens: tokens[-1],
    "max": lambda tokens: tokens.max(dim=0).values,
    "mean": lambda tokens: tokens.sum(dim=0) / len(tokens),
    "mean_sqrt_len": lambda tokens: tokens.sum(dim=0) / len(tokens) ** 0.5,
    "weighted_mean": weighted_mean,
}


@pytest.fixture(params=DEFINITIONS)
def pooling(request: pytest.FixtureRequest) -> Pooling:
    name: Pooling = request.param
    return name


def test_every_pooling_is_defined_here() -> None:
    assert set(POOLINGS) == set(DEFINITIONS)


def test_rows_are_those_of_the_definition(pooling: Pooling) -> None:
    hidden = HiddenStates.random(LENGTHS)
    answer = hidden.answered(PooledHead(POOL, pooling, []))
    assert answer.row_offsets is None
    np.testing.assert_allclose(answer.rows, hidden.expected(DEFINITIONS[pooling]), atol=1e-6)


def test_no_pooling_is_mistaken_for_another() -> None:
    hidden = HiddenStates.random(LENGTHS)
    rows = [hidden.answered(PooledHead(POOL, name, [])).rows[0] for name in POOLINGS]
    for i, row in enumerate(rows):
        for other in rows[:i]:
            assert np.abs(row - other).max() > 0.05


def test_bfloat16_is_pooled_in_float32(pooling: Pooling) -> None:
    hidden = HiddenStates.random(LENGTHS)
    rounded = HiddenStates(hidden.batch, [s.bfloat16().float() for s in hidden.sequences])
    np.testing.assert_allclose(
        hidden.answered(PooledHead(POOL, pooling, []), torch.bfloat16).rows,
        rounded.expected(DEFINITIONS[pooling]),
        atol=1e-6,
    )


SPANS = np.array([(0, 0, 3), (0, 2, 7), (1, 0, 1), (2, 5, 40), (2, 5, 8), (3, 6, 7)], np.int32)


def test_each_span_is_pooled_to_a_row_of_its_own(pooling: Pooling) -> None:
    hidden = HiddenStates.random([7, 1, 40, 7], spans=SPANS)
    answer = hidden.answered(PooledHead(POOL, pooling, []))
    for row, (sequence, start, end) in zip(answer.rows, SPANS.tolist(), strict=True):
        tokens = hidden.sequences[sequence].double()[start:end]
        if pooling == "weighted_mean":  # weighted by the place in the sequence
            expected = weighted_mean(tokens, before=start)
        else:
            expected = DEFINITIONS[pooling](tokens)
        np.testing.assert_allclose(row, expected.numpy(), atol=1e-6)
    assert answer.row_offsets is not None
    assert answer.row_offsets.tolist() == [0, 2, 3, 5, 6]
    assert answer.row_offsets.dtype == np.int32


def test_span_of_everything_is_the_sequence(pooling: Pooling) -> None:
    spans = np.array([(i, 0, n) for i, n in enumerate(LENGTHS)], np.int32)
    whole = HiddenStates.random(LENGTHS).answered(PooledHead(POOL, pooling, []))
    pieces = HiddenStates.random(LENGTHS, spans=spans).answered(PooledHead(POOL, pooling, []))
    np.testing.assert_allclose(pieces.rows, whole.rows, atol=1e-6)


def test_broken_span_is_that_of_its_sequence_alone(pooling: Pooling) -> None:
    hidden = HiddenStates.random([7, 1, 40, 7], spans=SPANS)
    hidden.sequences[2][5] = torch.nan
    answer = hidden.answered(PooledHead(POOL, pooling, []))
    assert answer.finite.tolist() == [True, True, pooling == "last_token", True]
