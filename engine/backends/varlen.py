"""FlashAttention 2 as torch contains it: needs nothing else, and fits a device without Triton."""

from typing import Any

from torch import Tensor

from engine.attention import AttentionSpec
from engine.backends.backend import Caps, DeviceStep, HostStep
from engine.device.buckets import Configuration

# A bound of one token would have torch take the batch for a step of decoding.
_LEAST_BOUND_TOKENS = 2


class VarlenAttention:
    """By the operators below `torch.nn.attention.varlen`, which all of torch from 2.11 on has.

    They share keys among query heads by themselves, while 2.11's public function cannot be asked
    to; nor do they fill a random state in every layer.
    """

    name = "varlen"
    caps = Caps(head_dims=range(8, 257, 8))
    bakes_max_seqlen = True  # the grid has a program for every tile of a longest sequence in each

    def __init__(self, operators: Any) -> None:
        # torch 2.11 has the first alone, which allocates its output.
        self._forward = operators._flash_attention_forward
        self._forward_into = getattr(operators, "_flash_attention_forward_no_dropout_inplace", None)

    def staging_ints(self, configuration: Configuration) -> int:
        return 0

    def prepare(self, step: HostStep) -> None:
        """Nothing: it reads the lengths on the device."""

    def run(self, qkv: Tensor, out: Tensor, spec: AttentionSpec, inputs: DeviceStep) -> None:
        q, k, v = qkv.split_with_sizes(spec.sizes, 1)  # [T, heads, D] each
        bound = inputs.configuration.max_seqlen or inputs.configuration.tokens
        bound = max(bound, _LEAST_BOUND_TOKENS)
        window = -1 if spec.window is None else spec.window
        arguments = (q, k, v, inputs.cu_seqlens, inputs.cu_seqlens, bound, bound)
        mask = {
            "dropout_p": 0.0,
            "is_causal": spec.causal,
            "return_debug_mask": False,
            "scale": spec.scale,
            "window_size_left": window,
            "window_size_right": 0 if spec.causal else window,
        }
        if self._forward_into is None:
            out.view(q.shape).copy_(self._forward(*arguments, **mask)[0])
        else:
            self._forward_into(out.view(q.shape), *arguments, **mask)
