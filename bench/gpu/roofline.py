"""How fast an H200 could be at best, and how fast it can be expected to be."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.gpu.shapes import ModelShape

# Of an H200 in bfloat16: what large products and copies get of the 989e12 and 4.8e12 of its sheet.
PEAK_FLOP_PER_S = 790e12
PEAK_BYTES_PER_S = 4.3e12

_LAUNCH_S = 2.5e-6  # from the start of a short kernel to that of the next, in a graph
_ELEMENT_BYTES = 2
_PRODUCTS, _ATTENTION = 0.7, 0.5  # shares of the peak that good kernels reach
_IN_MEMORY = 0.5  # of the traffic between kernels; the cache holds the rest
_STREAMED = 1.2  # times what the peak takes to read the weights


@dataclass(frozen=True)
class Bounds:
    """Seconds of the device."""

    floor_s: float  # arithmetic or memory at its peak, whichever takes longer
    target_s: float  # the same at the shares that good kernels reach; no faster than launches


def bounds(shape: ModelShape, lengths: Sequence[int]) -> Bounds:
    """Of one forward over sequences of these lengths, in 16 bits."""
    tokens = sum(lengths)
    products, attention = 2 * shape.parameters * tokens, attention_flop(shape, lengths)
    weights, between = _ELEMENT_BYTES * shape.parameters, _bytes_between_kernels(shape, tokens)
    arithmetic_s = (products / _PRODUCTS + attention / _ATTENTION) / PEAK_FLOP_PER_S
    return Bounds(
        floor_s=max(
            (products + attention) / PEAK_FLOP_PER_S, (weights + between) / PEAK_BYTES_PER_S
        ),
        target_s=max(
            shape.kernels * _LAUNCH_S,
            arithmetic_s + _IN_MEMORY * between / PEAK_BYTES_PER_S,
            _STREAMED * (weights + between) / PEAK_BYTES_PER_S,
        ),
    )


def attention_flop(shape: ModelShape, lengths: Sequence[int]) -> float:
    """Of all layers: two products of every query with every key that it sees."""
    seen = sum(length * length for length in lengths) / (2 if shape.causal else 1)
    return 4 * shape.layers * seen * shape.heads * shape.head_dim


def _bytes_between_kernels(shape: ModelShape, tokens: int) -> int:
    """Everything that one kernel writes and the next reads, joins fused with their norms."""
    hidden = 6 * shape.width
    qkv = 2 * (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    attended = 2 * shape.heads * shape.head_dim
    mlp = 2 * (3 if shape.gated else 1) * shape.mlp_width
    return _ELEMENT_BYTES * tokens * shape.layers * (hidden + qkv + attended + mlp)
