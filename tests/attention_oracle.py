"""Attention by its formula, and the masks that it is tested with."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from engine.attention import AttentionSpec

# What 384-, 768- and 1,024-dimensional models have, and what no power of two fits.
HEAD_DIMS = (32, 64, 80, 96, 128, 192, 256)


def masks(heads: int, narrow: int, wide: int) -> Mapping[str, Mapping[str, Any]]:
    """Every mask, as what it changes of an AttentionSpec; two windows."""
    generator = torch.Generator().manual_seed(5)
    bias = {"bias": torch.randn(heads, 2 * narrow + 1, generator=generator)}
    alibi = {"alibi": 0.5 ** torch.arange(1.0, heads + 1)}
    seen: Mapping[str, Mapping[str, Any]] = {
        "full": {},
        "causal": {"causal": True},
        "narrow": {"window": narrow},
        "wide": {"window": wide},
        "causal-narrow": {"causal": True, "window": narrow},
        "causal-wide": {"causal": True, "window": wide},
    }
    added = {
        f"{name}-{how}": {**seen[how], **what}
        for name, what in (("bias", bias), ("alibi", alibi))
        for how in ("full", "causal", "wide")
    }
    return {**seen, **added}


def by_the_formula(spec: AttentionSpec, qkv: Tensor, lengths: Sequence[int]) -> Tensor:
    """softmax(scale · q · kᵀ + bias) · v over what is seen, in float64, a sequence at a time.

    [T, heads + 2 · kv_heads, D] -> [T, heads · D], NaN behind the last sequence.
    """
    q, k, v = qkv.double().transpose(0, 1).split(spec.sizes)  # [heads, T, D]
    k, v = (tensor.repeat_interleave(spec.heads // spec.kv_heads, 0) for tensor in (k, v))
    attended, start = torch.full_like(q, math.nan), 0
    for length in lengths:
        rows = slice(start, start + length)
        scores = q[:, rows] @ k[:, rows].mT * spec.scale + _added(spec, length)
        attended[:, rows] = scores.softmax(-1) @ v[:, rows]
        start += length
    return attended.transpose(0, 1).flatten(1)


def _added(spec: AttentionSpec, length: int) -> Tensor:
    """[1 or heads, length, length]"""
    query, key = torch.arange(length)[:, None], torch.arange(length)[None]
    added = torch.zeros(1, length, length, dtype=torch.float64)
    if spec.bias is not None:
        reach = spec.bias.size(1) // 2
        added = added + spec.bias[:, (key - query).clamp(-reach, reach) + reach]
    if spec.alibi is not None:
        added = added - spec.alibi[:, None, None] * (key - query).abs()
    hidden = torch.zeros(length, length, dtype=torch.bool)
    if spec.causal:
        hidden |= key > query
    if spec.window is not None:
        hidden |= (key < query - spec.window) | (key > query + spec.window)
    return added.masked_fill(hidden, -math.inf)
