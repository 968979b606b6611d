"""Our own kernel: all masks, and no plan but the cutting of sequences into tiles."""

from collections.abc import Mapping
from functools import lru_cache

import torch
from torch import Tensor

from engine.attention import AttentionSpec
from engine.backends.backend import Caps, DeviceStep, HostStep, Layers
from engine.device.buckets import Configuration
from engine.triton_kernels.tiles import fill_tiles, tile_count
from engine.triton_kernels.tuning import Tuning, tuning

_KEPT = 1024  # configurations


class TritonAttention:
    """Raises ImportError where triton is not installed."""

    name = "triton"
    caps = Caps(
        head_dims=range(8, 257),
        dtypes=frozenset({torch.float16, torch.bfloat16, torch.float32}),
        bias=True,
        alibi=True,
    )
    bakes_max_seqlen = False

    def __init__(self, layers: Layers) -> None:
        from engine.triton_kernels.attention import TiledSequences, ragged_attention

        self._sequences, self._attend = TiledSequences, ragged_attention
        self._head_dims = sorted({spec.head_dim for spec in layers.specs})
        self._element_bytes = layers.dtype.itemsize
        self._cuts = lru_cache(_KEPT)(self._cut)  # asked for by every layer

    def staging_ints(self, configuration: Configuration) -> int:
        return max(place.stop for place in self._cuts(configuration).values())

    def prepare(self, step: HostStep) -> None:
        """Cut the sequences into tiles."""
        for rows, place in self._cuts(step.configuration).items():
            fill_tiles(step.lengths, rows, step.staging[place].reshape(-1, 2))

    def run(self, qkv: Tensor, out: Tensor, spec: AttentionSpec, inputs: DeviceStep) -> None:
        tuned = self._tuning(spec.head_dim, inputs.configuration)
        place = self._cuts(inputs.configuration)[tuned.block_m]
        tiles = inputs.staging[place].view(-1, 2)  # [N, 2]
        self._attend(qkv, out, self._sequences(inputs.cu_seqlens, tiles), spec, tuned)

    def _cut(self, configuration: Configuration) -> Mapping[int, slice]:
        """By rows of a tile: its part of the staging buffer. Head dims may differ in their rows."""
        heights = {self._tuning(head_dim, configuration).block_m for head_dim in self._head_dims}
        cuts, start = {}, 0
        for rows in sorted(heights):
            end = start + 2 * tile_count(configuration.tokens, configuration.slots, rows)
            cuts[rows], start = slice(start, end), end
        return cuts

    def _tuning(self, head_dim: int, configuration: Configuration) -> Tuning:
        return tuning(head_dim, configuration.tokens, configuration.slots, self._element_bytes)
