"""Ragged attention: each sequence attends to itself, none is padded."""

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.packing import Packed


@dataclass(frozen=True, eq=False)
class AttentionSpec:
    """What a layer's attention computes. Consecutive query heads share one of keys and values."""

    heads: int
    kv_heads: int
    head_dim: int
    scale: float  # of the products of queries and keys
    causal: bool = False  # a token sees none behind it
    window: int | None = None  # the farthest token that is seen, to each side; None: all are
    bias: Tensor | None = None  # [heads, 2 · r + 1]: added at distances -r to r, and at r beyond
    alibi: Tensor | None = None  # [heads]: how much less a score is a token away (arXiv:2108.12409)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Heads of queries, keys and values."""
        return self.heads, self.kv_heads, self.kv_heads

    def masks(self, tokens: int) -> bool:
        """Whether anything is added to the scores of a sequence of so many tokens."""
        windowed = self.window is not None and self.window < tokens - 1
        added = self.bias is not None or self.alibi is not None
        return added or windowed or (self.causal and tokens > 1)

    def seen(self, rows: range, tokens: int) -> range:
        """The keys that a query of `rows` sees, in a sequence of so many tokens."""
        first = 0 if self.window is None else max(0, rows.start - self.window)
        if self.causal:
            return range(first, rows.stop)
        return range(first, tokens if self.window is None else min(tokens, rows.stop + self.window))

    def added(self, distance: Tensor) -> Tensor:
        """What is added to scaled scores: -inf where nothing is seen.

        `distance` is key - query, of any shape: [...] -> [...], or [heads, ...] where heads differ.
        """
        added = torch.zeros(distance.shape)
        if self.bias is not None:
            reach = self.bias.size(1) // 2
            added = self.bias[:, distance.clamp(-reach, reach) + reach]
        if self.alibi is not None:
            added = added - self.alibi.view(-1, *[1] * distance.dim()) * distance.abs()
        unseen = distance > 0 if self.causal else torch.zeros_like(distance, dtype=torch.bool)
        if self.window is not None:
            unseen = unseen | (distance.abs() > self.window)
        return added.masked_fill(unseen, -torch.inf)


class Attention(Protocol):
    """Has no weights: layers with the same specification share one."""

    name: str  # as the runtime reports it
    spec: AttentionSpec

    def __call__(self, qkv: Tensor, packed: Packed) -> Tensor:
        """[T, heads + 2 · kv_heads, D], a token's queries, keys and values, -> [T, heads · D]."""
        ...


class SequenceAttention:
    """The reference: one sequence after another."""

    name = "sequence"

    def __init__(self, spec: AttentionSpec) -> None:
        self.spec = spec

    def __call__(self, qkv: Tensor, packed: Packed) -> Tensor:
        spec = self.spec
        q, k, v = qkv.transpose(0, 1).split_with_sizes(spec.sizes)  # [heads, T, D] each
        attended = q.new_empty(q.shape)
        start = 0
        for sequences, tokens in packed.groups:
            mask = self._mask(tokens, q.dtype)
            for _ in range(sequences):
                rows = slice(start, start + tokens)
                attended[:, rows] = F.scaled_dot_product_attention(
                    q[:, rows],
                    k[:, rows],
                    v[:, rows],
                    attn_mask=mask,
                    scale=spec.scale,
                    enable_gqa=spec.kv_heads < spec.heads,
                )
                start += tokens
        # A dummy token sees itself alone.
        attended[:, start:] = v[:, start:].repeat_interleave(spec.heads // spec.kv_heads, 0)
        return attended.transpose(0, 1).flatten(1)

    def _mask(self, tokens: int, dtype: torch.dtype) -> Tensor | None:
        if not self.spec.masks(tokens):
            return None
        positions = torch.arange(tokens)
        return self.spec.added(positions - positions[:, None]).to(dtype)


class RaggedAttention:
    """On an accelerator: by the backend that the packed tokens come with."""

    name = "ragged"

    def __init__(self, spec: AttentionSpec) -> None:
        self.spec = spec

    def __call__(self, qkv: Tensor, packed: Packed) -> Tensor:
        attended = qkv.new_empty(qkv.size(0), self.spec.heads * self.spec.head_dim)
        packed.parts.attend(qkv, attended, self.spec)
        return attended
