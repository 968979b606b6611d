from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.device.buckets import (
    SLOTS,
    TOKEN_BUCKETS,
    seqlen_bucket,
    slot_bucket,
    token_bucket,
)

tokens = st.integers(1, 200_000)


def test_there_are_84_totals_up_to_32768() -> None:
    assert len(TOKEN_BUCKETS) == 84
    assert list(TOKEN_BUCKETS) == sorted({token_bucket(tokens) for tokens in range(1, 32_769)})


def test_edges_belong_to_the_bucket_they_fill() -> None:
    for bucket, following in pairwise(TOKEN_BUCKETS):
        assert token_bucket(bucket) == bucket
        assert token_bucket(bucket + 1) == following
    assert token_bucket(32_769) == 33_792


@given(tokens)
def test_bucket_fits_and_is_its_own(tokens: int) -> None:
    bucket = token_bucket(tokens)
    assert bucket >= tokens
    assert token_bucket(bucket) == bucket


@given(tokens)
def test_no_bucket_is_less_than_that_of_fewer_tokens(tokens: int) -> None:
    assert token_bucket(tokens) <= token_bucket(tokens + 1)


@given(tokens)
def test_waste_is_bounded(tokens: int) -> None:
    bucket = token_bucket(tokens)
    wasted = bucket - tokens
    if tokens <= 512:
        assert wasted < 64
    elif tokens <= 4096:
        assert wasted < 128  # within one tile of a GEMM: free
    if tokens > 1024:
        assert wasted / bucket <= 127 / 1152


def test_mean_waste_above_1024_tokens_is_three_percent() -> None:
    totals = range(1025, 32_769)
    assert sum(1 - tokens / token_bucket(tokens) for tokens in totals) / len(totals) < 0.032


@given(st.integers(1, 512))
def test_slots_fit_and_are_the_fewest_that_do(rows: int) -> None:
    slots = slot_bucket(rows)
    assert slots is not None
    assert slots >= rows
    assert all(fewer < rows for fewer in SLOTS if fewer < slots)


def test_no_slots_are_kept_for_more_than_512_rows() -> None:
    assert slot_bucket(512) == 512
    assert slot_bucket(513) is None


@given(st.integers(1, 200_000))
def test_bound_of_a_length_fits_and_is_a_power_of_two(longest: int) -> None:
    bound = seqlen_bucket(longest)
    assert bound >= longest
    assert bound.bit_count() == 1
    assert bound == 64 or bound < 2 * longest
