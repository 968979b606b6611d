"""One layer's attention on the device, by one backend, outside of any model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from engine.attention import AttentionSpec
from engine.backends.backend import AttentionBackend, DeviceStep, HostStep
from engine.device.buckets import Configuration, seqlen_bucket, slot_bucket, token_bucket
from engine.device.device import Device


@dataclass(frozen=True, eq=False)
class RaggedCase:
    """What is attended to: `spec` with tensors of the host, and lengths of sequences, 0 allowed."""

    spec: AttentionSpec
    lengths: tuple[int, ...]

    @property
    def configuration(self) -> Configuration:
        """Padded, with slots to spare and a dummy tail, as a graph's."""
        tokens = token_bucket(sum(self.lengths))
        longest = max(*self.lengths, tokens - sum(self.lengths))
        slots = slot_bucket(len(self.lengths)) or len(self.lengths)
        return Configuration("bench", tokens, slots, seqlen_bucket(longest))

    @property
    def flop(self) -> float:
        seen = sum(length * length for length in self.lengths) / (2 if self.spec.causal else 1)
        return 4 * seen * self.spec.heads * self.spec.head_dim


class RaggedRun:
    """The case in buffers of the device, ready to run as often as one likes."""

    def __init__(self, device: Device, backend: AttentionBackend, case: RaggedCase, qkv: Tensor):
        """`qkv` [T, heads + 2 · kv_heads, D], of the device."""
        self._backend, self._qkv = backend, qkv
        self._spec = on_device(case.spec, device)
        self._host, self._memory = _host_step(device, backend, case)
        self.out = qkv.new_full((qkv.size(0), case.spec.heads * case.spec.head_dim), torch.nan)
        self.prepare()
        uploaded: list[Tensor] = []
        device.run(lambda: uploaded.append(self._memory.to(device.place)))
        device.synchronize()
        cu_seqlens, staging = uploaded[0].tensor_split([self._host.cu_seqlens.numel()])
        self._step = DeviceStep(self._host.configuration, cu_seqlens, staging)

    def prepare(self) -> None:
        """What a step costs the host, by this backend."""
        self._backend.prepare(self._host)

    def run(self) -> None:
        with torch.inference_mode():
            self._backend.run(self._qkv, self.out, self._spec, self._step)


def on_device(spec: AttentionSpec, device: Device) -> AttentionSpec:
    bias, alibi = (
        None if tensor is None else tensor.to(device.place) for tensor in (spec.bias, spec.alibi)
    )
    device.synchronize()  # they were copied in another queue than the one that reads them
    return replace(spec, bias=bias, alibi=alibi)


def expected(qkv: Tensor, case: RaggedCase) -> Tensor:
    """The rows of all sequences in float32, by the host: [sum of lengths, heads · D]."""
    spec, start, rows = case.spec, 0, []
    for tokens in filter(None, case.lengths):
        heads = qkv[start : start + tokens].float().transpose(0, 1)  # [heads, tokens, D]
        q, k, v = heads.split_with_sizes(spec.sizes)
        k, v = (part.repeat_interleave(spec.heads // spec.kv_heads, 0) for part in (k, v))
        positions = torch.arange(tokens)
        scores = q @ k.mT * spec.scale + spec.added(positions - positions[:, None])
        rows.append((scores.softmax(-1) @ v).transpose(0, 1).flatten(1))
        start += tokens
    return torch.cat(rows)


def poisoned(qkv: Tensor, lengths: Sequence[int]) -> Tensor:
    """Every other sequence and the dummy tail hold NaN, which no neighbour may read."""
    qkv = qkv.clone()
    starts = np.cumsum((0, *lengths))
    for sequence in range(1, len(lengths), 2):
        qkv[starts[sequence] : starts[sequence + 1]] = torch.nan
    qkv[starts[-1] :] = torch.nan
    return qkv


def _host_step(
    device: Device, backend: AttentionBackend, case: RaggedCase
) -> tuple[HostStep, Tensor]:
    """The step, and the page-locked memory that it lies in: [S + 2 + staging_ints]."""
    configuration = case.configuration
    lengths = np.zeros(configuration.slots + 1, dtype=np.int32)
    lengths[: len(case.lengths)] = case.lengths
    lengths[-1] = configuration.tokens - sum(case.lengths)
    ints = lengths.size + 1 + backend.staging_ints(configuration)
    memory = device.pinned(4 * ints).view(torch.int32)
    cu_seqlens, staging = memory.tensor_split([lengths.size + 1])
    cu_seqlens.numpy()[:] = np.concatenate([[0], lengths.cumsum()])
    return HostStep(configuration, lengths, cu_seqlens, staging.numpy()), memory
