"""Attention over all sequences of one length at once: what is fastest on a CPU."""

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.attention import AttentionSpec
from engine.packing import Packed

# Scores computed at a time: 8 MiB of bfloat16, of which a core's share still is in cache when the
# softmax and the second product read it. 12 heads of 512 tokens fit in.
_MAX_SCORES = 1 << 22
# From here on two batched products and a softmax are faster than SDPA: 1.0 to 1.1 times in float32,
# 2.2 times in bfloat16 (512 tokens), whose products cost 50 µs a call however small they are.
_PRODUCTS_FROM_TOKENS = 64
# Queries at a time where a mask hides keys from all of them: the fewer, the fewer scores are
# computed in vain, but also the more products. A window has at least as many queries as it is wide.
_MASKED_ROWS = 128


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


class DistanceMask:
    """What is added to scores. Distance alone decides, so one table serves all lengths."""

    def __init__(self, spec: AttentionSpec, dtype: torch.dtype) -> None:
        self._spec = spec
        self._origin = 0  # the column of distance 0 in the first row
        self._table = torch.empty(0, 0, dtype=dtype)  # [rows, columns], or a head each

    def of(self, rows: range, keys: range) -> Tensor:
        """[rows, keys], or [kv_heads, heads a kv_head, rows, keys] where heads differ."""
        before, behind = rows.start - keys.start, keys.stop - rows.start
        if (
            len(rows) > self._table.size(-2)
            or before > self._origin
            or behind > self._table.size(-1) - self._origin
        ):
            self._grow(len(rows), before, behind)
        return self._table[..., : len(rows), self._origin - before : self._origin + behind]

    def _grow(self, rows: int, before: int, behind: int) -> None:
        """To powers of two, so that it seldom happens."""
        rows = max(_power_of_two(rows), self._table.size(-2))
        behind = max(_power_of_two(behind), self._table.size(-1) - self._origin)
        self._origin = max(_power_of_two(before), self._origin)
        distance = torch.arange(-self._origin, behind) - torch.arange(rows)[:, None]
        table = self._spec.added(distance)
        if table.dim() > distance.dim():  # heads differ
            table = table.view(self._spec.kv_heads, -1, *distance.shape)
        self._table = table.to(self._table.dtype)


class GroupAttention:
    """SDPA for short sequences without a mask, batched products for the others.

    Products keep their scores in the dtype of the tokens. In bfloat16 that adds nothing to the
    error of rounded queries and keys: MiniLM's least cosine to float32 is 0.99992 with either.
    """

    name = "grouped"

    def __init__(self, spec: AttentionSpec, scratch: Scratch, dtype: torch.dtype) -> None:
        self.spec, self._scratch = spec, scratch
        self._mask = DistanceMask(spec, dtype)
        self._sizes = spec.sizes

    def __call__(self, qkv: Tensor, packed: Packed) -> Tensor:
        _, heads, head_dim = qkv.shape
        attended = qkv.new_empty(qkv.size(0), self.spec.heads, head_dim)
        start = 0
        for sequences, tokens in packed.groups:
            end = start + sequences * tokens
            group = qkv[start:end].view(sequences, tokens, heads, head_dim).transpose(1, 2)
            out = attended[start:end].view(sequences, tokens, -1, head_dim).transpose(1, 2)
            q, k, v = group.split_with_sizes(self._sizes, 1)
            self._attend(q, k, v, out)
            start = end
        if packed.padded_tokens:  # a dummy token sees itself alone
            v = qkv[start:, -self.spec.kv_heads :]
            attended[start:] = v.repeat_interleave(self.spec.heads // v.size(1), 1)
        return attended.flatten(1)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, attended: Tensor) -> None:
        """[sequences, heads, tokens, D] each, of k and v [sequences, kv_heads, tokens, D]."""
        sequences, heads, tokens, _ = q.shape
        masked = self.spec.masks(tokens)
        batched = tokens if q.dtype == torch.float32 else sequences * tokens
        if batched < _PRODUCTS_FROM_TOKENS and not masked and k.size(1) == heads:
            attended.copy_(F.scaled_dot_product_attention(q, k, v, scale=self.spec.scale))
            return
        # Query heads that share keys are rows of one product, so no key is copied for them.
        shape = (sequences, k.size(1), heads // k.size(1), tokens, q.size(3))
        q, attended = q.view(shape), attended.view(shape)
        # A product in bfloat16 would copy strided keys one by one: 14 ms where it takes 2.2 itself.
        k = k.flatten(0, 1).contiguous().mT  # [matrices, D, tokens]
        v = v.flatten(0, 1)  # [matrices, tokens, D]
        at_a_time = self._rows_at_a_time(sequences * heads, tokens)
        for first in range(0, tokens, at_a_time):
            rows = range(first, min(first + at_a_time, tokens))
            keys = self.spec.seen(rows, tokens)
            mask = self._mask.of(rows, keys) if masked else None
            weights = self._weights(
                q[..., rows.start : rows.stop, :], k[..., keys.start : keys.stop], mask
            )
            summed = torch.bmm(weights, v[:, keys.start : keys.stop])
            attended[..., rows.start : rows.stop, :] = summed.view(*shape[:3], len(rows), -1)

    def _rows_at_a_time(self, heads: int, tokens: int) -> int:
        rows = max(1, _MAX_SCORES // (heads * tokens))
        if self.spec.causal or self.spec.window is not None:
            rows = min(rows, max(_MASKED_ROWS, self.spec.window or 0))
        return rows

    def _weights(self, q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
        """softmax(scale · q · k + mask): [matrices, heads a kv_head · rows, keys]"""
        *heads, rows, head_dim = q.shape  # sequences, kv_heads, heads a kv_head
        matrices, _, keys = k.shape
        scores = self._scratch.take(matrices, heads[2] * rows, keys)
        if mask is not None:
            scores.view(*heads, rows, keys).copy_(mask)
        # beta=0: what the memory held before is not read.
        beta, queries = int(mask is not None), q.reshape(matrices, -1, head_dim)
        torch.baddbmm(scores, queries, k, beta=beta, alpha=self.spec.scale, out=scores)
        return torch.softmax(scores, -1, out=scores)


def _power_of_two(size: int) -> int:
    """The least that is not smaller."""
    return 1 << (size - 1).bit_length() if size > 0 else 0
