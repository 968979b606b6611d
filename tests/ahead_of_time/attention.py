"""The launches of ragged attention: every tile that is served, with each mask."""

from functools import partial
from itertools import cycle

import torch
from ahead_of_time.case import Case
from attention_oracle import HEAD_DIMS, masks

from engine.attention import AttentionSpec
from engine.triton_kernels.attention import TiledSequences, ragged_attention
from engine.triton_kernels.tuning import tuning

# Of queries and of keys: MiniLM, bge-m3 and EmbeddingGemma have these, Qwen3 the others. They set
# how far apart rows are, which a kernel knows.
_HEADS = {32: (12, 12), 64: (16, 16), 256: (3, 1)}
_OTHER_HEADS = (16, 8)
_CLASSES = {"short": 512, "long": 8192}  # tokens of one sequence
_TILES = [
    *((torch.bfloat16, length) for length in _CLASSES),
    *((torch.float16, length) for length in _CLASSES),
    (torch.float32, "long"),  # has one table for all lengths
]


def _attend(head_dim: int, dtype: torch.dtype, length: str, mask: str) -> None:
    heads, kv_heads = _HEADS.get(head_dim, _OTHER_HEADS)
    seen = masks(heads, narrow=64, wide=256)[mask]  # windows of ModernBERT and EmbeddingGemma
    spec = AttentionSpec(heads, kv_heads, head_dim, head_dim**-0.5, **seen)
    ragged_attention(
        torch.empty(8, heads + 2 * kv_heads, head_dim, dtype=dtype),
        torch.empty(8, heads * head_dim, dtype=dtype),
        TiledSequences(torch.zeros(3, dtype=torch.int32), torch.zeros(2, 2, dtype=torch.int32)),
        spec,
        tuning(head_dim, _CLASSES[length], 1, dtype.itemsize),
    )


def _case(head_dim: int, dtype: torch.dtype, length: str, mask: str) -> Case:
    name = f"attention D={head_dim} {str(dtype).removeprefix('torch.')} {length} {mask}"
    return Case(name, partial(_attend, head_dim, dtype, length, mask))


_MASKS = tuple(masks(1, narrow=64, wide=256))
# 35 tiles and 12 masks have no common factor: no mask meets the same tiles only.
ATTENTION_DISPATCH = tuple(
    _case(head_dim, dtype, length, mask)
    for ((dtype, length), head_dim), mask in zip(
        [(tile, head_dim) for tile in _TILES for head_dim in HEAD_DIMS], cycle(_MASKS)
    )
)
ATTENTION_PRODUCT = tuple(
    _case(head_dim, dtype, length, mask)
    for dtype, length in _TILES
    for head_dim in HEAD_DIMS
    for mask in _MASKS
)
