"""The launches of ragged attention: every tile that is served, with each mask."""

from functools import partial
from itertools import cycle

import torch
from ahead_of_time.case import Case
from attention_oracle import HEAD_DIMS, masks

from engine.attention import AttentionSpec
from engine.triton_kernels.attention import TiledSequences, ragged_attention
from engine.triton_kernels.tuning import tuning

_HEADS, _KV_HEADS = 16, 8
_MASKS = masks(_HEADS, narrow=64, wide=256)  # those of ModernBERT and EmbeddingGemma
_CLASSES = {"short": 512, "long": 8192}  # tokens of one sequence
_TILES = [
    *((torch.bfloat16, length) for length in _CLASSES),
    *((torch.float16, length) for length in _CLASSES),
    (torch.float32, "long"),  # has one table for all lengths
]


def _attend(head_dim: int, dtype: torch.dtype, length: str, mask: str) -> None:
    spec = AttentionSpec(_HEADS, _KV_HEADS, head_dim, head_dim**-0.5, **_MASKS[mask])
    ragged_attention(
        torch.empty(8, _HEADS + 2 * _KV_HEADS, head_dim, dtype=dtype),
        torch.empty(8, _HEADS * head_dim, dtype=dtype),
        TiledSequences(torch.zeros(3, dtype=torch.int32), torch.zeros(2, 2, dtype=torch.int32)),
        spec,
        tuning(head_dim, _CLASSES[length], 1, dtype.itemsize),
    )


def _case(head_dim: int, dtype: torch.dtype, length: str, mask: str) -> Case:
    name = f"attention D={head_dim} {str(dtype).removeprefix('torch.')} {length} {mask}"
    return Case(name, partial(_attend, head_dim, dtype, length, mask))


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
