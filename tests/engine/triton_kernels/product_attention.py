"""Ragged attention in the interpreter: every mask with every head dim, dtype and sharing of keys.

Some minutes: `make kernels` names this file, `pytest tests` does not collect it.
"""

import pytest
import torch
from attention_oracle import HEAD_DIMS, masks
from ragged_case import RaggedCase

from engine.attention import AttentionSpec
from engine.triton_kernels.tuning import Tuning

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    # numpy of the interpreter of triton 3.6.
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
]

HEADS = 4
MASKS = masks(HEADS, narrow=7, wide=40)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float32", "float16"])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("mask", MASKS)
def test_each_token_attends_to_what_it_sees_of_its_sequence(
    mask: str, head_dim: int, kv_heads: int, dtype: torch.dtype
) -> None:
    spec = AttentionSpec(HEADS, kv_heads, head_dim, head_dim**-0.5, **MASKS[mask])
    tiles = Tuning(block_m=16, block_n=16, warps=4, stages=2)
    RaggedCase(spec, tiles, [0, 1, 7, 0, 32, 65, 0], dtype=dtype).assert_right()
