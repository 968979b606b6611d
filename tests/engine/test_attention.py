"""Attention by groups is attention by sequence, whatever the lengths and whatever is seen."""

import math
from collections.abc import Callable, Mapping, Sequence

import pytest
import torch
from sequences import batch_of, random_sequences
from torch import Tensor

import engine.group_attention
from engine.attention import Attention, AttentionSpec, SequenceAttention
from engine.group_attention import GroupAttention, Scratch
from engine.packing import Packed, pack

pytestmark = pytest.mark.usefixtures("one_thread")

HEADS, HEAD_DIM, REACH = 6, 16, 12
# Both sides of the length where products take over, groups of one and of many, a single token.
LENGTHS = [1, 1, 5, 16, 16, 16, 16, 16, 40, 63, 64, 65, 65, 130]
WINDOW = 7


def spec(kv_heads: int = HEADS, **changes: object) -> AttentionSpec:
    return AttentionSpec(HEADS, kv_heads, HEAD_DIM, HEAD_DIM**-0.5, **changes)  # type: ignore[arg-type]


def random_bias() -> Tensor:
    return torch.randn(HEADS, 2 * REACH + 1, generator=torch.Generator().manual_seed(5))


SPECS: Mapping[str, AttentionSpec] = {
    "full": spec(),
    "causal": spec(causal=True),
    "window": spec(window=WINDOW),
    "causal window": spec(causal=True, window=WINDOW),
    "window of oneself": spec(window=0),
    "shared keys": spec(2),
    "shared keys, causal": spec(1, causal=True),
    "shared keys, window": spec(3, window=WINDOW),
    "bias": spec(bias=random_bias()),
    "shared keys, bias": spec(2, bias=random_bias()),
    "alibi": spec(alibi=torch.tensor([0.5, 0.25, 0.1, 0.0, 2.0, 0.01])[:HEADS]),
    "shared keys, causal, alibi": spec(2, causal=True, alibi=torch.linspace(0.1, 0.6, HEADS)),
    "another scale": AttentionSpec(HEADS, 2, HEAD_DIM, 0.1, causal=True),
}
ATTENTIONS: Mapping[str, Callable[[AttentionSpec, torch.dtype], Attention]] = {
    "sequence": lambda spec, _: SequenceAttention(spec),
    "grouped": lambda spec, dtype: GroupAttention(spec, Scratch(dtype), dtype),
}


def packed_of(lengths: Sequence[int], dummies: int = 0) -> Packed:
    return pack(batch_of(random_sequences(lengths, 97)), lambda tokens: tokens + dummies)[0]


def random_qkv(spec: AttentionSpec, packed: Packed, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    tokens = packed.tokens + packed.padded_tokens
    # Scores of ±16 in float32, attention far from uniform; of ±4 in bfloat16, which rounds them.
    spread = 2 if dtype == torch.float32 else 1
    shape = (tokens, spec.heads + 2 * spec.kv_heads, spec.head_dim)
    return (torch.randn(shape, generator=generator) * spread).to(dtype)


def by_the_formula(spec: AttentionSpec, qkv: Tensor, packed: Packed) -> Tensor:
    """softmax(scale · q · kᵀ + bias) · v over what is seen, in float64, a sequence at a time."""
    q, k, v = qkv.double().transpose(0, 1).split(spec.sizes)  # [heads, T, D]
    k, v = (tensor.repeat_interleave(spec.heads // spec.kv_heads, 0) for tensor in (k, v))
    attended, start = torch.full_like(q, math.nan), 0
    lengths = [tokens for sequences, tokens in packed.groups for _ in range(sequences)]
    for length in lengths + [1] * packed.padded_tokens:
        rows = slice(start, start + length)
        query, key = torch.arange(length)[:, None], torch.arange(length)[None]
        hidden = torch.zeros(length, length, dtype=torch.bool)
        if spec.causal:
            hidden |= key > query
        if spec.window is not None:
            hidden |= (key < query - spec.window) | (key > query + spec.window)
        scores = q[:, rows] @ k[:, rows].mT * spec.scale
        if spec.bias is not None:
            scores += spec.bias[:, (key - query).clamp(-REACH, REACH) + REACH]
        if spec.alibi is not None:
            scores -= spec.alibi[:, None, None] * (key - query).abs()
        attended[:, rows] = scores.masked_fill(hidden, -math.inf).softmax(-1) @ v[:, rows]
        start += length
    return attended.transpose(0, 1).flatten(1)


def assert_follows_the_formula(
    attended: Tensor, spec: AttentionSpec, qkv: Tensor, packed: Packed
) -> None:
    tolerance = 1e-5 if attended.dtype == torch.float32 else 0.03
    expected = by_the_formula(spec, qkv, packed)
    torch.testing.assert_close(attended.double(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_each_token_attends_to_what_it_sees_of_its_sequence(kind: str, dtype: torch.dtype) -> None:
    spec, packed = SPECS[kind], packed_of(LENGTHS, dummies=7)
    qkv = random_qkv(spec, packed, dtype)
    expected = by_the_formula(spec, qkv, packed)
    for name, make in ATTENTIONS.items():
        attention = make(spec, dtype)
        assert attention.name == name
        tolerance = 1e-5 if dtype == torch.float32 else 0.03
        torch.testing.assert_close(
            attention(qkv, packed).double(), expected, rtol=0, atol=tolerance
        )


@pytest.mark.parametrize("max_scores", [1, 1000, 100_000])
@pytest.mark.parametrize("kind", ["full", "shared keys, causal", "window", "bias"])
def test_long_sequences_are_computed_some_rows_at_a_time(
    kind: str, max_scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.group_attention, "_MAX_SCORES", max_scores)
    spec, packed = SPECS[kind], packed_of([80, 65, 80])
    for dtype in (torch.float32, torch.bfloat16):
        qkv = random_qkv(spec, packed, dtype)
        attention = GroupAttention(spec, Scratch(dtype), dtype)
        assert_follows_the_formula(attention(qkv, packed), spec, qkv, packed)


@pytest.mark.parametrize("kind", SPECS)
def test_masks_grow_with_the_lengths_that_come(kind: str) -> None:
    spec = SPECS[kind]
    attention = GroupAttention(spec, Scratch(torch.float32), torch.float32)
    for lengths in ([3], [70, 5], [9], [150], [65, 65]):
        packed = packed_of(lengths)
        qkv = random_qkv(spec, packed, torch.float32)
        assert_follows_the_formula(attention(qkv, packed), spec, qkv, packed)


@pytest.mark.parametrize("kind", ["full", "causal"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scratch_keeps_nothing_of_an_earlier_step(kind: str, dtype: torch.dtype) -> None:
    scratch = Scratch(dtype)
    scratch.take(HEADS * 300 * 300).fill_(math.nan)
    spec, packed = SPECS[kind], packed_of([70, 70, 129])
    qkv = random_qkv(spec, packed, dtype)
    attention = GroupAttention(spec, scratch, dtype)
    assert_follows_the_formula(attention(qkv, packed), spec, qkv, packed)
