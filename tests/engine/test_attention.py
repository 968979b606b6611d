"""Attention by groups is attention by sequence, whatever the lengths."""

import math
from collections.abc import Sequence

import pytest
import torch
from sequences import batch_of, random_sequences
from torch import Tensor

import engine.attention
from engine.attention import GroupAttention, Scratch, SequenceAttention
from engine.packing import Packed, pack

HEADS, HEAD_DIM = 3, 16
# Both sides of the length where products take over, groups of one and of many, a single token.
LENGTHS = [1, 1, 5, 16, 16, 16, 16, 16, 40, 63, 64, 65, 65, 130]


def packed_of(lengths: Sequence[int], dummies: int = 0) -> Packed:
    return pack(batch_of(random_sequences(lengths, 97)), bucket=lambda tokens: tokens + dummies)


def random_qkv(packed: Packed, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    tokens = packed.tokens + packed.padded_tokens
    # Scores of ±16 in float32, attention far from uniform; of ±4 in bfloat16, which rounds them.
    spread = 2 if dtype == torch.float32 else 1
    return (torch.randn(tokens, 3 * HEADS * HEAD_DIM, generator=generator) * spread).to(dtype)


def by_the_formula(qkv: Tensor, packed: Packed) -> Tensor:
    """softmax(q · kᵀ / √d) · v in float64, one head of one sequence at a time."""
    q, k, v = qkv.double().chunk(3, dim=1)
    attended, start = torch.full_like(q, math.nan), 0
    lengths = [tokens for sequences, tokens in packed.groups for _ in range(sequences)]
    for length in lengths + [1] * packed.padded_tokens:
        for head in range(HEADS):
            at = slice(start, start + length), slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)
            weights = (q[at] @ k[at].T / math.sqrt(HEAD_DIM)).softmax(-1)
            attended[at] = weights @ v[at]
        start += length
    return attended


def assert_follows_the_formula(attended: Tensor, qkv: Tensor, packed: Packed) -> None:
    tolerance = 1e-5 if qkv.dtype == torch.float32 else 0.03
    expected = by_the_formula(qkv, packed)
    torch.testing.assert_close(attended.double(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["sequence", "grouped"])
def test_each_sequence_attends_to_itself_alone(name: str, dtype: torch.dtype) -> None:
    packed = packed_of(LENGTHS, dummies=7)
    attention = {
        "sequence": SequenceAttention(HEADS, HEAD_DIM),
        "grouped": GroupAttention(HEADS, HEAD_DIM, Scratch(dtype)),
    }[name]
    qkv = random_qkv(packed, dtype)
    assert attention.name == name
    assert_follows_the_formula(attention(qkv, packed), qkv, packed)


@pytest.mark.parametrize("max_scores", [1, 1000, 100_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_long_sequences_are_computed_some_rows_at_a_time(
    dtype: torch.dtype, max_scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.attention, "_MAX_SCORES", max_scores)
    packed = packed_of([200, 65, 200])
    qkv = random_qkv(packed, dtype)
    attention = GroupAttention(HEADS, HEAD_DIM, Scratch(dtype))
    assert_follows_the_formula(attention(qkv, packed), qkv, packed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scratch_keeps_nothing_of_an_earlier_step(dtype: torch.dtype) -> None:
    scratch = Scratch(dtype)
    scratch.take(HEADS * 300 * 300).fill_(math.nan)
    packed = packed_of([70, 70, 129])
    qkv = random_qkv(packed, dtype)
    attention = GroupAttention(HEADS, HEAD_DIM, scratch)
    assert_follows_the_formula(attention(qkv, packed), qkv, packed)
