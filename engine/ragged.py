"""How an accelerator knows the sequences of a batch: by tensors, which graphs read anew."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.segments import Segments

if TYPE_CHECKING:
    from engine.attention import AttentionSpec


@dataclass(frozen=True, eq=False)
class Ragged:
    """S slots of sequences, unused ones without a token, and one more with the dummy tail.

    No host value depends on the lengths: they change under a captured graph.
    """

    cu_seqlens: Tensor  # [S + 2] int32
    segments: Segments  # S rows to pool
    # qkv [T, heads + 2 · kv_heads, D] and the result [T, heads · D]: the backend of this S and T
    attend: Callable[[Tensor, Tensor, "AttentionSpec"], None]

    def owners(self, tokens: Tensor) -> Tensor:
        """The slot of each of these packed tokens [n]; S for a dummy one."""
        return torch.searchsorted(self.cu_seqlens[1:], tokens, right=True)
