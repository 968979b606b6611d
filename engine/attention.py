"""Ragged attention: each sequence attends to itself, none is padded."""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.packing import Packed


class Attention(Protocol):
    name: str  # as the runtime reports it

    def __call__(self, qkv: Tensor, packed: Packed) -> Tensor:
        """[T, 3H], a token's queries, keys and values side by side, -> [T, H]."""
        ...


class SequenceAttention:
    """The reference: one sequence after another."""

    name = "sequence"

    def __init__(self, heads: int, head_dim: int) -> None:
        self._shape = (3, heads, head_dim)

    def __call__(self, qkv: Tensor, packed: Packed) -> Tensor:
        q, k, v = qkv.view(-1, *self._shape).permute(1, 2, 0, 3)  # [heads, T, head_dim] each
        attended = torch.empty_like(v)
        start = 0
        for sequences, tokens in packed.groups:
            for _ in range(sequences):
                rows = slice(start, start + tokens)
                attended[:, rows] = F.scaled_dot_product_attention(
                    q[:, rows], k[:, rows], v[:, rows]
                )
                start += tokens
        attended[:, start:] = v[:, start:]  # a dummy token attends to itself alone
        return attended.transpose(0, 1).flatten(1)  # [T, H]


# Scores computed at a time: 8 MiB of bfloat16, of which a core's share still is in cache when the
# softmax and the second product read it. 12 heads of 512 tokens fit in.
_MAX_SCORES = 1 << 22
# From here on two batched products and a softmax are faster than SDPA: 1.0 to 1.1 times in float32,
# 2.2 times in bfloat16 (512 tokens), whose products cost 50 µs a call however small they are.
_PRODUCTS_FROM_TOKENS = 64


class Scratch:
    """The memory of the scores, kept from call to call and shared by all layers, which run in turn.

    Fresh memory of this size comes as pages that are zeroed first: at 512 tokens that takes longer
    than the products.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._memory = torch.empty(0, dtype=dtype)

    def take(self, *shape: int) -> Tensor:
        size = torch.Size(shape).numel()
        if self._memory.numel() < size:
            self._memory = torch.empty(size, dtype=self._memory.dtype)
        return self._memory[:size].view(shape)


class GroupAttention:
    """All sequences of one length at once: SDPA for short ones, batched products for the others.

    Products keep their scores in the dtype of the tokens. In bfloat16 that adds nothing to the
    error of rounded queries and keys: MiniLM's least cosine to float32 is 0.99992 with either.
    """

    name = "grouped"

    def __init__(self, heads: int, head_dim: int, scratch: Scratch) -> None:
        self._heads, self._head_dim, self._scratch = heads, head_dim, scratch
        self._scale: float = head_dim**-0.5

    def __call__(self, qkv: Tensor, packed: Packed) -> Tensor:
        width = self._heads * self._head_dim
        attended = qkv.new_empty(qkv.size(0), width)
        start = 0
        for sequences, tokens in packed.groups:
            end = start + sequences * tokens
            shape = (sequences, tokens, 3, self._heads, self._head_dim)
            group = qkv[start:end].view(shape).permute(2, 0, 3, 1, 4)
            attended[start:end].view(sequences, tokens, self._heads, -1).copy_(
                self._attend(group).transpose(1, 2)
            )
            start = end
        if packed.padded_tokens:
            attended[start:] = qkv[start:, 2 * width :]  # a dummy token attends to itself alone
        return attended

    def _attend(self, group: Tensor) -> Tensor:
        """[3, sequences, heads, tokens, head_dim] -> [sequences, heads, tokens, head_dim]."""
        _, sequences, _, tokens, _ = group.shape
        batched = tokens if group.dtype == torch.float32 else sequences * tokens
        if batched < _PRODUCTS_FROM_TOKENS:
            return F.scaled_dot_product_attention(*group)
        q, k, v = group.reshape(3, -1, tokens, self._head_dim)
        return self._products(q, k.mT, v).view(group.shape[1:])

    def _products(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """softmax(q · k / √head_dim) · v; q, v: [matrices, tokens, head_dim], k transposed."""
        matrices, tokens, _ = q.shape
        attended = torch.empty_like(v)
        step = min(tokens, max(1, _MAX_SCORES // (matrices * tokens)))  # query rows at a time
        for first in range(0, tokens, step):
            rows = slice(first, min(first + step, tokens))
            scores = self._scratch.take(matrices, rows.stop - first, tokens)
            # beta=0: what the memory held before is not read.
            torch.baddbmm(scores, q[:, rows], k, beta=0, alpha=self._scale, out=scores)
            torch.softmax(scores, -1, out=scores)
            torch.bmm(scores, v, out=attended[:, rows])
        return attended
