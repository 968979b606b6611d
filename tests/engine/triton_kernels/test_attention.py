"""Ragged attention in the interpreter: each mask, each head dim and each tile once.

`product_attention.py` has every combination.
"""

import math
from itertools import cycle

import pytest
import torch
from attention_oracle import HEAD_DIMS, by_the_formula, masks
from ragged_case import UNTOUCHED, RaggedCase

from engine.attention import AttentionSpec
from engine.triton_kernels.tuning import Tuning, tuning

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    # Of the interpreter's maximum, which passes over NaN as a GPU's does.
    pytest.mark.filterwarnings("ignore:All-NaN slice encountered:RuntimeWarning"),
]

HEADS = 4
SMALL = Tuning(block_m=16, block_n=16, warps=4, stages=2)
# Empty slots at either end and between; one token; less than a block, whole ones and one more.
LENGTHS = [0, 1, 7, 0, 32, 65, 0]
# Windows of less than two blocks, and of more.
MASKS = masks(HEADS, narrow=7, wide=40)
SERVED_MASKS = masks(heads=2, narrow=20, wide=200)
SERVED_LENGTHS = [230, 129, 1]


def spec(head_dim: int, mask: str, kv_heads: int = HEADS) -> AttentionSpec:
    return AttentionSpec(HEADS, kv_heads, head_dim, head_dim**-0.5, **MASKS[mask])


@pytest.mark.parametrize(
    ("mask", "head_dim", "kv_heads", "dtype"),
    list(zip(MASKS, cycle(HEAD_DIMS), cycle([4, 2, 1]), cycle([torch.float32, torch.float16]))),
)
def test_each_token_attends_to_what_it_sees_of_its_sequence(
    mask: str, head_dim: int, kv_heads: int, dtype: torch.dtype
) -> None:
    RaggedCase(spec(head_dim, mask, kv_heads), SMALL, LENGTHS, dtype=dtype).assert_right()


@pytest.mark.parametrize(
    ("mask", "head_dim", "tokens", "dtype"),
    list(
        zip(
            SERVED_MASKS,
            cycle(HEAD_DIMS),
            cycle([8192, 512, 8192]),
            cycle([torch.float16, torch.float16, torch.float32]),
        )
    ),
)
def test_tiles_that_are_served_are_right(
    mask: str, head_dim: int, tokens: int, dtype: torch.dtype
) -> None:
    served = AttentionSpec(2, 1, head_dim, head_dim**-0.5, **SERVED_MASKS[mask])
    tiles = tuning(head_dim, tokens, 1, dtype.itemsize)
    RaggedCase(served, tiles, SERVED_LENGTHS, dtype=dtype).assert_right()


@pytest.mark.parametrize("mask", ["full", "causal", "narrow"])
def test_the_dummy_tail_attends_to_itself_alone(mask: str) -> None:
    case = RaggedCase(spec(32, mask), SMALL, [5, 20], tail=40)
    poisoned = case.qkv()
    finite = poisoned.nan_to_num(1.5)
    alone, beside = case.attended(poisoned), case.attended(finite)
    assert torch.equal(alone[: case.tokens], beside[: case.tokens])
    expected = by_the_formula(case.spec, finite, [*case.lengths, case.tail])
    torch.testing.assert_close(beside[:65].double(), expected[:65], rtol=0, atol=1e-5)


@pytest.mark.parametrize("mask", ["full", "causal", "wide"])
def test_a_sequence_that_is_not_finite_spoils_no_other(mask: str) -> None:
    case = RaggedCase(spec(32, mask), SMALL, [33, 17, 40], tail=0)
    qkv = case.qkv()
    clean = case.attended(qkv)
    qkv[33:50] = math.nan
    spoiled = case.attended(qkv)
    assert spoiled[33:50].isnan().all()
    spoiled[33:50] = clean[33:50]
    assert torch.equal(spoiled, clean)


def test_rows_of_no_sequence_are_not_written() -> None:
    case = RaggedCase(spec(32, "full"), SMALL, [0, 0, 0], tail=0)
    assert (case.attended(case.qkv()) == UNTOUCHED).all()


@pytest.mark.parametrize("mask", ["full", "causal", "narrow", "wide", "bias-full"])
def test_a_row_does_not_depend_on_the_sequences_beside_it(mask: str) -> None:
    case = RaggedCase(spec(32, mask), SMALL, [3, 50, 18], tail=0)
    alone = RaggedCase(spec(32, mask), SMALL, [50], tail=0)
    qkv = case.qkv()
    assert torch.equal(alone.attended(qkv[3:])[:50], case.attended(qkv)[3:53])
