"""One transformer layer over packed tokens."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from engine.attention import Attention
from engine.linear import Linear
from engine.packing import Packed


class LayerNorm:
    """Its statistics are computed in float32 whatever the dtype of the tokens."""

    __slots__ = ("_bias", "_eps", "_shape", "_weight")

    def __init__(self, weight: Tensor, bias: Tensor, eps: float) -> None:
        self._weight, self._bias, self._eps = weight, bias, eps
        self._shape = tuple(weight.shape)

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self._shape, self._weight, self._bias, self._eps)


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """Attention, then the MLP; each is added to its input and the sum normalised."""

    qkv: Linear  # one product for queries, keys and values
    attention: Attention
    attention_output: Linear
    attention_norm: LayerNorm
    mlp_up: Linear  # the activation is its own
    mlp_down: Linear
    mlp_norm: LayerNorm

    def __call__(self, hidden: Tensor, packed: Packed) -> Tensor:  # [T, H] -> [T, H]
        attended = self.attention(self.qkv(hidden), packed)
        hidden = self.attention_norm(self.attention_output(attended).add_(hidden))
        return self.mlp_norm(self.mlp_down(self.mlp_up(hidden)).add_(hidden))
