"""A backend for a simulated device: attention by torch, sequence by sequence."""

from itertools import pairwise

import torch
from torch import Tensor

from engine.attention import AttentionSpec
from engine.backends.backend import Caps, DeviceStep, HostStep
from engine.device.buckets import Configuration


class ReferenceAttention:
    name = "triton"  # as the one that can do everything
    caps = Caps(
        head_dims=range(1, 1025),
        dtypes=frozenset({torch.float32, torch.bfloat16, torch.float16}),
        bias=True,
        alibi=True,
    )

    def __init__(self, bakes_max_seqlen: bool = False) -> None:
        self.bakes_max_seqlen = bakes_max_seqlen
        self.prepared: list[Configuration] = []

    def staging_ints(self, configuration: Configuration) -> int:
        return configuration.slots + 1

    def prepare(self, step: HostStep) -> None:
        assert step.lengths.sum() == step.configuration.tokens  # the dummy tail included
        self.prepared.append(step.configuration)
        step.staging[:] = step.lengths

    def run(self, qkv: Tensor, out: Tensor, spec: AttentionSpec, inputs: DeviceStep) -> None:
        """With the lengths of its own staging, which are not those of another step."""
        out.zero_()
        assert inputs.cu_seqlens.diff().tolist() == inputs.staging.tolist()
        ends = inputs.cu_seqlens.tolist()
        bound = inputs.configuration.max_seqlen or inputs.configuration.tokens
        for start, end in pairwise(ends):
            assert end - start <= bound
            q, k, v = qkv[start:end].float().transpose(0, 1).split_with_sizes(spec.sizes)
            k, v = (heads.repeat_interleave(spec.heads // spec.kv_heads, 0) for heads in (k, v))
            positions = torch.arange(end - start)
            scores = q @ k.mT * spec.scale + spec.added(positions - positions[:, None])
            out[start:end] = (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)
