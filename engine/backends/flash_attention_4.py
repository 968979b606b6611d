"""FlashAttention 4 (arXiv:2603.05451): kernels in CuTe DSL, compiled on the machine they run on."""

from typing import Any

from torch import Tensor

from engine.attention import AttentionSpec
from engine.backends.backend import Caps, DeviceStep, HostStep
from engine.device.buckets import Configuration


class FlashAttention4:
    """Needs no plan: its grid follows from T and S, a program finds its sequence on the device."""

    name = "fa4"
    caps = Caps(head_dims=range(8, 257, 8))
    bakes_max_seqlen = False

    def __init__(self, library: Any) -> None:
        # Not the public function, which would allocate an output that is then copied.
        self._forward = library._flash_attn_fwd

    def staging_ints(self, configuration: Configuration) -> int:
        return 0

    def prepare(self, step: HostStep) -> None:
        """Nothing: it reads the lengths on the device."""

    def run(self, qkv: Tensor, out: Tensor, spec: AttentionSpec, inputs: DeviceStep) -> None:
        q, k, v = qkv.split_with_sizes(spec.sizes, 1)  # [T, heads, D] each
        # Without max_seqlen_q and max_seqlen_k the total bounds them, in every replay.
        self._forward(
            q,
            k,
            v,
            cu_seqlens_q=inputs.cu_seqlens,
            cu_seqlens_k=inputs.cu_seqlens,
            softmax_scale=spec.scale,
            causal=spec.causal,
            window_size_left=spec.window,
            window_size_right=0 if spec.causal else spec.window,
            out=out.view(q.shape),
        )
