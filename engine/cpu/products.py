"""Attention and linear layers by the compiled kernels."""

import ctypes
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.attention import AttentionSpec
from engine.cpu.binding import AttentionArguments, LinearArguments
from engine.packing import Packed

_ACTIVATIONS = {
    None: 0,
    "gelu": 1,
    "gelu_new": 2,
    "gelu_pytorch_tanh": 2,
    "relu": 3,
    "silu": 4,
}
_LOG2_E = math.log2(math.e)  # scores are exponents of 2
_ALL_SEEN = 1 << 40  # more tokens than any sequence has
_LANES = 16  # keys come so many at a time, the last of them behind the sequence


class CpuAttention:
    """Every mask and bias depends on distance alone: one table has what is added to scores."""

    name = "cpu"

    def __init__(self, library: Any, spec: AttentionSpec, dtype: torch.dtype) -> None:
        self.spec, self._run = spec, library.attention
        self._bfloat16, self.width = dtype == torch.bfloat16, spec.heads * spec.head_dim
        seen = _ALL_SEEN if spec.window is None else spec.window
        biased = spec.bias is not None or spec.alibi is not None
        self.arguments = AttentionArguments(
            *(spec.heads, spec.kv_heads, spec.head_dim),
            *(seen, 0 if spec.causal else seen, biased),
            spec.scale * _LOG2_E,
        )
        self._address = ctypes.addressof(self.arguments)
        self._adds = biased or spec.causal or spec.window is not None
        self._reach = 0  # the farthest distance in the table
        self._added = torch.empty(0, 0)  # [1 or heads, 2 · reach + 1]

    def __call__(self, qkv: Tensor, packed: Packed) -> Tensor:
        attended = qkv.new_empty(qkv.size(0), self.width)
        offsets = packed.cu_seqlens
        added, stride = self.added(int(packed.lengths[-1]))
        self._run(
            *(self._address, qkv.data_ptr(), attended.data_ptr()),
            *(offsets.data_ptr(), offsets.size(0) - 1, added, stride, self._bfloat16),
        )
        return attended

    def added(self, tokens: int) -> tuple[int | None, int]:
        """For sequences up to so many: where distance 0 of the first head is, and how far behind it
        that of the next. None: nothing is added to scores.
        """
        if not self._adds:
            return None, 0
        if tokens + _LANES > self._reach:
            self._reach = 1 << (tokens + _LANES).bit_length()
            distance = torch.arange(-self._reach, self._reach + 1)
            added = self.spec.added(distance) * _LOG2_E
            self._added = added.reshape(-1, distance.size(0)).contiguous()
        heads, distances = self._added.shape
        zero = self._added.data_ptr() + self._reach * self._added.element_size()
        return zero, distances if heads > 1 else 0


class CpuLinear:
    """Panels of 32 columns, each dense; in bfloat16 two inputs of a column side by side.

    A row's sums are in the order of the inputs, whatever rows are beside it.
    """

    __slots__ = ("_address", "_bfloat16", "_bias", "_run", "_weight", "arguments", "outputs")

    def __init__(
        self,
        library: Any,
        weight: Tensor,
        bias: Tensor | None,
        hidden_act: str | None = None,
        gated: bool = False,
    ) -> None:
        """`weight` [out, in] in the dtype of the tokens; gated, [2 · out, in], first the half that
        is activated. `hidden_act` is a name that `hidden_activation` knows.
        """
        rows, inputs = weight.shape
        if bias is None:
            bias = torch.zeros(rows)
        self._run, self._bfloat16 = library.linear, weight.dtype == torch.bfloat16
        self.outputs = rows // 2 if gated else rows
        self._weight = _panels(weight, gated)
        self._bias = _panels(bias.float()[:, None], gated)
        self.arguments = LinearArguments(
            *(self._weight.data_ptr(), self._bias.data_ptr()),
            *(inputs, self.outputs, _ACTIVATIONS[hidden_act], gated),
        )
        self._address = ctypes.addressof(self.arguments)

    def __call__(self, x: Tensor) -> Tensor:
        x, rows = x.contiguous(), x.size(0)
        out = x.new_empty(rows, self.outputs)
        self._run(self._address, x.data_ptr(), out.data_ptr(), rows, self._bfloat16)
        return out


def _panels(weight: Tensor, gated: bool) -> Tensor:
    """[out, in] -> [panels, in / n, 32, n] with n inputs in a word."""
    inputs = weight.size(1)
    if gated:  # 16 columns of each half in a panel
        halves = [_whole(half, 16).view(-1, 16, inputs) for half in weight.chunk(2)]
        weight = torch.cat(halves, 1).view(-1, inputs)
    in_a_word = 2 if weight.dtype == torch.bfloat16 else 1
    panels = _whole(weight, 32).view(-1, 32, inputs // in_a_word, in_a_word)
    return panels.transpose(1, 2).contiguous()


def _whole(rows: Tensor, multiple: int) -> Tensor:
    """With rows of zeros up to a multiple of so many."""
    return F.pad(rows, (0, 0, 0, -rows.size(0) % multiple))
