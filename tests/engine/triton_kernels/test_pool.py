import pytest
import torch
from poison import Poisoned, assert_rounded, make_norm
from torch import Tensor

from checkpoint.spec import Pooling
from engine.join import JoinNorms, PlainJoin
from engine.pooling import POOLINGS
from engine.segments import Segments, pool_segments
from engine.triton_kernels.pool import pool

POST = JoinNorms(sum=make_norm("layer", 100))
SANDWICH = JoinNorms(behind=make_norm("rms", 100, seed=1), next=make_norm("rms", 100, seed=2))


def segments(*places: tuple[int, int, int]) -> Segments:
    """(start, length, position) each."""
    starts, lengths, positions = torch.tensor(places, dtype=torch.int32).T.contiguous()
    return Segments(starts, lengths, positions)


# Behind 300 tokens of segments, some of them shared, come 9 of which nobody asks.
PLACES = segments((0, 1, 0), (1, 127, 0), (0, 0, 0), (128, 129, 0), (257, 43, 5), (250, 50, 3))
TOKENS = 309


def states(width: int, dtype: torch.dtype) -> Tensor:
    hidden = torch.randn(TOKENS, width).to(dtype)
    hidden[300:] = torch.nan
    return hidden


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_rows_are_those_of_the_reference(pooling: Pooling, dtype: torch.dtype) -> None:
    hidden = Poisoned(states(100, dtype)).view
    rows = pool(None, hidden, POST, PLACES, pooling)
    assert rows.dtype == torch.float32
    assert_rounded(rows, pool_segments(hidden, PLACES, pooling))
    assert rows[2].count_nonzero() == 0  # unused


@pytest.mark.parametrize(
    ("norms", "pooling"),
    [
        (JoinNorms(), "cls"),
        (POST, "cls"),
        (SANDWICH, "cls"),
        (SANDWICH, "last_token"),
        (SANDWICH, "mean"),
    ],
)
def test_what_the_last_layer_leaves_is_joined_before(norms: JoinNorms, pooling: Pooling) -> None:
    branch, hidden = Poisoned(states(100, torch.float32)), Poisoned(states(100, torch.float32))
    joined = PlainJoin(norms)(branch.view.clone(), hidden.view)[1]
    rows = pool(branch.view, hidden.view, norms, PLACES, pooling)
    assert_rounded(rows, pool_segments(joined, PLACES, pooling))
    branch.assert_unspilled()


@pytest.mark.parametrize("width", [384, 768, 1000, 2560])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_rows_of_any_width_are_pooled(width: int, pooling: Pooling) -> None:
    branch, hidden = torch.randn(2, 4, width)
    norms = JoinNorms(next=make_norm("rms", width))
    joined = PlainJoin(norms)(branch.clone(), hidden)[1]
    places = segments((0, 3, 0), (3, 1, 0))
    rows = pool(branch, hidden, norms, places, pooling)
    assert_rounded(rows, pool_segments(joined, places, pooling))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_vector_does_not_depend_on_its_batch(pooling: Pooling) -> None:
    hidden = torch.randn(200, 48)
    alone = pool(None, hidden[61:200], POST, segments((0, 139, 0)), pooling)
    together = pool(None, hidden, POST, segments((0, 61, 0), (61, 139, 0)), pooling)
    assert torch.equal(together[1:], alone)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_token_that_is_no_number_is_seen_in_its_row_alone(pooling: Pooling, value: float) -> None:
    hidden = torch.randn(9, 48)
    hidden[3:6] = value
    rows = pool(None, hidden, POST, segments((0, 3, 0), (3, 3, 0), (6, 3, 0)), pooling)
    assert rows.isfinite().all(1).tolist() == [True, False, True]


def test_maximum_does_not_hide_one_nan() -> None:
    hidden = torch.randn(300, 48)
    hidden[200, 7] = torch.nan
    rows = pool(None, hidden, POST, segments((0, 300, 0)), "max")
    assert rows.isnan().nonzero().tolist() == [[0, 7]]


def test_unused_segments_read_nothing() -> None:
    hidden = torch.full((2, 48), torch.nan)
    for pooling in POOLINGS:
        rows = pool(hidden.clone(), hidden, POST, segments((0, 0, 0), (2, 0, 0)), pooling)
        assert torch.equal(rows, torch.zeros(2, 48))
