"""A launch of ragged attention in the interpreter, and the rows behind it that must stay."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from attention_oracle import by_the_formula
from torch import Tensor

from engine.attention import AttentionSpec
from engine.triton_kernels.attention import TiledSequences, ragged_attention
from engine.triton_kernels.tiles import fill_tiles, tile_count
from engine.triton_kernels.tuning import Tuning

UNTOUCHED = 7.0
_ROWS_BEHIND = 5  # of the buffers, behind the padded total
# By dtype: of values of ±8.
_TOLERANCE = {torch.float32: 3e-5, torch.float16: 0.01}


@dataclass(frozen=True)
class RaggedCase:
    spec: AttentionSpec
    tuning: Tuning
    lengths: Sequence[int]  # of the slots
    tail: int = 9  # dummy tokens
    dtype: torch.dtype = torch.float32

    @property
    def tokens(self) -> int:
        return sum(self.lengths)

    def qkv(self) -> Tensor:
        """Scores of ±16, attention far from uniform. NaN in the dummy tail and behind it."""
        spec, generator = self.spec, torch.Generator().manual_seed(3)
        rows = self.tokens + self.tail + _ROWS_BEHIND
        shape = (rows, spec.heads + 2 * spec.kv_heads, spec.head_dim)
        qkv = (torch.randn(shape, generator=generator) * 2).to(self.dtype)
        qkv[self.tokens :] = math.nan
        return qkv

    def attended(self, qkv: Tensor) -> Tensor:
        """[tokens + tail + rows behind, heads · D]"""
        out = torch.full((qkv.size(0), self.spec.heads * self.spec.head_dim), UNTOUCHED)
        out = out.to(qkv.dtype)
        ragged_attention(qkv, out, self._sequences(), self.spec, self.tuning)
        return out

    def assert_right(self) -> None:
        qkv = self.qkv()
        out = self.attended(qkv)
        expected = by_the_formula(self.spec, qkv, self.lengths)
        torch.testing.assert_close(
            out[: self.tokens].double(),
            expected[: self.tokens],
            rtol=0,
            atol=_TOLERANCE[self.dtype],
        )
        assert (out[self.tokens + self.tail :] == UNTOUCHED).all()

    def _sequences(self) -> TiledSequences:
        lengths = np.array([*self.lengths, self.tail], np.int32)
        cu_seqlens = np.zeros(lengths.size + 1, np.int32)
        np.cumsum(lengths, out=cu_seqlens[1:])
        rows = self.tuning.block_m
        count = tile_count(self.tokens + self.tail, len(self.lengths), rows)
        tiles = np.empty((count, 2), np.int32)
        fill_tiles(lengths, rows, tiles)
        return TiledSequences(torch.from_numpy(cu_seqlens), torch.from_numpy(tiles))
