"""FlashInfer's ragged prefill (arXiv:2501.01005), with a plan made on the host for every step."""

from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from engine.attention import AttentionSpec
from engine.backends.backend import Caps, DeviceStep, HostStep, Layers
from engine.device.buckets import SLOTS, Configuration
from engine.device.staging import InputRing

_PLAN_INTS = 2 << 20  # 8 MiB, as the library itself takes for a plan
_STEPS = 3  # in flight, and the one being prepared
_WRAPPERS = 2048  # more than there are configurations to capture, for each of two masks

Mask = tuple[int, int, int, float, bool, int]


class FlashInfer:
    """A wrapper for each configuration and mask, all on the same memory.

    Steps run one after another, so each plan may overwrite the last one of its mask. A graph refers
    to that memory alone, and outlives the wrapper that it was captured with.
    """

    # A window counts the keys before a query; of those behind it all are seen, or causally none.
    caps = Caps(head_dims=(64, 128, 256), window=False)
    bakes_max_seqlen = False

    def __init__(self, kernels: str, layers: Layers, make_wrapper: Any) -> None:
        self.name = f"flashinfer-{kernels}"
        self._kernels, self._layers, self._make_wrapper = kernels, layers, make_wrapper
        able = [spec for spec in layers.specs if self.caps.lacks(spec, layers.dtype) is None]
        self._plans = {_mask(spec): self._ints(_PLAN_INTS) for spec in able}
        self._partial_sums = self._ints(16)  # no room: a plan that splits keys would be refused
        self._indptr = self._ints(SLOTS[-1] + 2)
        # A plan is copied to the device behind the step before it, so the next must not be written
        # where it was: the library would, having one such buffer for each wrapper.
        self._ring = InputRing(layers.device, _PLAN_INTS, _STEPS * len(self._plans))
        self._wrapper = lru_cache(_WRAPPERS)(self._wrap)
        self._prepared: Configuration | None = None

    def staging_ints(self, configuration: Configuration) -> int:
        return 0

    def prepare(self, step: HostStep) -> None:
        """Plan the step, for a replay as for an eager forward."""
        self._prepared = None
        for mask in self._plans:
            buffer = self._ring.take()
            try:
                self._layers.device.run(partial(self._plan, mask, step, buffer.host))
            finally:
                self._ring.give(buffer)
        self._prepared = step.configuration

    def run(self, qkv: Tensor, out: Tensor, spec: AttentionSpec, inputs: DeviceStep) -> None:
        configuration = inputs.configuration
        if configuration != self._prepared:
            raise RuntimeError(f"{configuration} was not prepared, but {self._prepared}")
        q, k, v = qkv.split_with_sizes(spec.sizes, 1)  # [T, heads, D] each
        wrapper = self._wrapper(configuration.tokens, configuration.slots, _mask(spec))
        wrapper.run(q, k, v, out=out.view(q.shape))

    def _plan(self, mask: Mask, step: HostStep, buffer: Tensor) -> None:
        """Lengths are read on the host: to read them on the device, a plan would wait for it."""
        wrapper = self._wrapper(step.configuration.tokens, step.configuration.slots, mask)
        wrapper._pin_memory_int_workspace_buffer = buffer.view(torch.uint8)
        heads, kv_heads, head_dim, scale, causal, window = mask
        wrapper.plan(
            *(step.cu_seqlens, step.cu_seqlens, heads, kv_heads, head_dim),
            causal=causal,
            window_left=window,
            sm_scale=scale,
            q_data_type=self._layers.dtype,
            disable_split_kv=True,  # of FA2; its partial sums would be hundreds of megabytes
        )

    def _wrap(self, tokens: int, slots: int, mask: Mask) -> Any:
        """One for each total: no plan of a wrapper may have more tokens than its first."""
        sums, plan = self._partial_sums.view(torch.uint8), self._plans[mask].view(torch.uint8)
        indptr = self._indptr[: slots + 2] if slots <= SLOTS[-1] else self._ints(slots + 2)
        buffers = {"qo_indptr_buf": indptr, "kv_indptr_buf": indptr}
        wrapper = self._make_wrapper(sums, use_cuda_graph=True, backend=self._kernels, **buffers)
        wrapper._int_workspace_buffer = plan
        return wrapper

    def _ints(self, count: int) -> Tensor:
        return torch.empty(count, dtype=torch.int32, device=self._layers.device.place)


def _mask(spec: AttentionSpec) -> Mask:
    """Layers that can share a plan have the same."""
    window = -1 if spec.window is None else spec.window
    return spec.heads, spec.kv_heads, spec.head_dim, spec.scale, spec.causal, window
