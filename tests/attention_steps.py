"""Steps of an attention backend, and what they should give."""

from collections.abc import Sequence

import numpy as np
import torch
from fake_attention import attend
from torch import Tensor

from engine.attention import AttentionSpec
from engine.backends.backend import AttentionBackend, DeviceStep, HostStep
from engine.device.buckets import Configuration


def host_step(
    backend: AttentionBackend, configuration: Configuration, lengths: Sequence[int]
) -> HostStep:
    """`lengths` of the sequences; the dummy tail gets the rest of the configuration's tokens."""
    slots = np.zeros(configuration.slots + 1, dtype=np.int32)
    slots[: len(lengths)] = lengths
    slots[-1] = configuration.tokens - sum(lengths)
    cu_seqlens = np.concatenate([[0], slots.cumsum()]).astype(np.int32)
    staging = np.full(backend.staging_ints(configuration), 0x5A5A5A5A, dtype=np.int32)
    return HostStep(configuration, slots, torch.from_numpy(cu_seqlens), staging)


def on_device(step: HostStep) -> DeviceStep:
    staging = torch.from_numpy(step.staging.copy())
    return DeviceStep(step.configuration, step.cu_seqlens.clone(), staging)


def random_qkv(spec: AttentionSpec, tokens: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    """[T, heads + 2 · kv_heads, D]"""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(tokens, sum(spec.sizes), spec.head_dim, generator=generator).to(dtype)


def expected(qkv: Tensor, step: HostStep, spec: AttentionSpec) -> Tensor:
    """[T, heads · D]"""
    q, k, v = qkv.split_with_sizes(spec.sizes, 1)
    return attend(q, k, v, step.cu_seqlens, spec).flatten(1)
