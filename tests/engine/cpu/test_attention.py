"""Attention in C++ is attention by its formula, and each sequence is alone."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from attention_oracle import HEAD_DIMS, by_the_formula, masks
from hypothesis import given, settings
from hypothesis import strategies as st
from sequences import batch_of, random_sequences
from torch import Tensor

from engine.attention import AttentionSpec
from engine.cpu.products import CpuAttention
from engine.packing import Packed, pack

HEADS, NARROW, WIDE = 4, 3, 20
MASKS = masks(HEADS, NARROW, WIDE)
DTYPES = (torch.float32, torch.bfloat16)
# Around 12 rows, 16 keys and 32 of them; one token; odd, where the last word is half empty.
LENGTHS = [1, 1, 2, 11, 12, 13, 15, 16, 17, 25, 31, 32, 33, 49, 64, 100]


def packed_of(lengths: Sequence[int], dummies: int = 0) -> Packed:
    return pack(batch_of(random_sequences(lengths, 97)), lambda tokens: tokens + dummies)[0]


def random_qkv(
    spec: AttentionSpec, packed: Packed, dtype: torch.dtype, spread: float = 1.0, seed: int = 3
) -> Tensor:
    shape = (packed.input_ids.size(0), spec.heads + 2 * spec.kv_heads, spec.head_dim)
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * spread).to(dtype)


def spec_of(head_dim: int = 32, kv_heads: int = HEADS, **changes: Any) -> AttentionSpec:
    return AttentionSpec(HEADS, kv_heads, head_dim, head_dim**-0.5, **changes)


def assert_right(library: Any, spec: AttentionSpec, packed: Packed, qkv: Tensor) -> None:
    """To rounding: of scores, whose error grows with them, and of weights and sums."""
    attended = CpuAttention(library, spec, qkv.dtype)(qkv, packed)
    lengths = packed.lengths.tolist() + [1] * packed.padded_tokens
    expected = by_the_formula(spec, qkv, lengths)
    largest = float(qkv.float().square().mean()) * 10  # of scores, about
    precision = 2e-7 if qkv.dtype == torch.float32 else 2**-8
    tolerance = precision * (4 + largest) * float(qkv.float().abs().max())
    if qkv.dtype == torch.bfloat16:  # its products are exact: only weights and results are rounded
        tolerance = 2**-7 * float(qkv.float().abs().max())
    torch.testing.assert_close(attended.double(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("how", MASKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_token_attends_to_what_it_sees_of_its_sequence(
    library: Any, how: str, dtype: torch.dtype
) -> None:
    packed = packed_of(LENGTHS, dummies=5)
    for kv_heads in (HEADS, 2, 1):
        spec = spec_of(kv_heads=kv_heads, **MASKS[how])
        assert_right(library, spec, packed, random_qkv(spec, packed, dtype))


@pytest.mark.parametrize("head_dim", [2, 8, 14, 16, 30, 40, *HEAD_DIMS])
@pytest.mark.parametrize("dtype", DTYPES)
def test_heads_may_have_any_width(library: Any, head_dim: int, dtype: torch.dtype) -> None:
    packed = packed_of([1, 5, 16, 23, 70])
    for how in ("full", "causal"):
        spec = spec_of(head_dim, 2, **MASKS[how])
        assert_right(library, spec, packed, random_qkv(spec, packed, dtype))


def test_float32_heads_may_be_odd(library: Any) -> None:
    spec, packed = spec_of(33), packed_of([1, 5, 16, 23])
    assert_right(library, spec, packed, random_qkv(spec, packed, torch.float32))


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 140), min_size=1, max_size=6),
    head_dim=st.sampled_from([16, 32, 64]),
    how=st.sampled_from(list(MASKS)),
    spread=st.sampled_from([0.1, 1.0, 4.0]),
    seed=st.integers(0, 2**31),
)
def test_random_batches_follow_the_formula(
    library: Any, lengths: list[int], head_dim: int, how: str, spread: float, seed: int
) -> None:
    spec, packed = spec_of(head_dim, 2, **MASKS[how]), packed_of(lengths, seed % 3)
    for dtype in DTYPES:
        assert_right(library, spec, packed, random_qkv(spec, packed, dtype, spread, seed))


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_far_below_zero_and_equal_ones_are_no_exception(
    library: Any, dtype: torch.dtype
) -> None:
    spec, packed = spec_of(), packed_of([40, 7])
    qkv = random_qkv(spec, packed, dtype)
    qkv[:, :HEADS] = -8
    qkv[:, HEADS : 2 * HEADS] = 8  # all scores are -362
    assert_right(library, spec, packed, qkv)
    assert_right(library, spec, packed, torch.full_like(qkv, 0.5))
    assert_right(library, spec, packed, torch.zeros_like(qkv))


@pytest.mark.parametrize("how", ["full", "causal", "narrow", "alibi-full"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_stays_in_its_sequence(
    library: Any, how: str, dtype: torch.dtype, broken: float
) -> None:
    spec, packed = spec_of(**MASKS[how]), packed_of([9, 17, 40], dummies=3)
    attention, qkv = CpuAttention(library, spec, dtype), random_qkv(spec, packed, dtype)
    healthy = attention(qkv, packed)
    qkv[9 + 8, :] = broken  # the middle of the second sequence
    attended = attention(qkv, packed)
    others = torch.ones(attended.size(0), dtype=torch.bool)
    others[9 : 9 + 17] = False
    assert torch.equal(attended[others], healthy[others])
    assert not attended[9 + 8].isfinite().any()


@pytest.mark.parametrize("how", MASKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sequence_has_the_same_bits_in_every_company(
    library: Any, how: str, dtype: torch.dtype
) -> None:
    spec, packed = spec_of(kv_heads=2, **MASKS[how]), packed_of(LENGTHS)
    attention, qkv = CpuAttention(library, spec, dtype), random_qkv(spec, packed, dtype)
    together, start = attention(qkv, packed), 0
    for length in packed.lengths.tolist():
        rows = slice(start, start + length)
        alone = CpuAttention(library, spec, dtype)(qkv[rows].contiguous(), packed_of([length]))
        assert torch.equal(together[rows], alone), length
        start += length


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", ["full", "causal-wide"])
def test_few_heads_of_a_long_sequence_are_divided_among_threads(
    library: Any, how: str, dtype: torch.dtype
) -> None:
    spec, packed = AttentionSpec(2, 1, 32, 0.2, **MASKS[how]), packed_of([1000, 20])
    qkv = random_qkv(spec, packed, dtype)
    assert_right(library, spec, packed, qkv)
    threads, divided = torch.get_num_threads(), CpuAttention(library, spec, dtype)(qkv, packed)
    torch.set_num_threads(1)
    try:
        assert torch.equal(CpuAttention(library, spec, dtype)(qkv, packed), divided)
    finally:
        torch.set_num_threads(threads)


def test_table_of_what_is_added_grows_with_the_lengths_that_come(library: Any) -> None:
    for how in ("causal", "bias-wide", "alibi-full"):
        spec = spec_of(**MASKS[how])
        attention = CpuAttention(library, spec, torch.float32)
        for lengths in ([3], [70, 5], [9], [300]):
            packed = packed_of(lengths)
            qkv = random_qkv(spec, packed, torch.float32)
            expected = by_the_formula(spec, qkv, lengths if len(lengths) == 1 else [5, 70])
            actual = attention(qkv, packed).double()
            torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)
