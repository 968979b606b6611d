"""One transformer layer over packed tokens: the same for every family."""

from dataclasses import dataclass

from torch import Tensor

from engine.attention import Attention
from engine.join import Join, Unjoined
from engine.linear import Linear
from engine.norm import Norm
from engine.packing import Packed
from engine.rotary import RotaryTable, Rotation


@dataclass(frozen=True, eq=False, slots=True)
class SelfAttention:
    qkv: Linear  # one product for queries, keys and values
    head_dim: int
    turned_heads: int  # of queries and keys, which come first
    attend: Attention
    output: Linear
    qk_norm: Norm | None = None  # over each head of queries and keys
    rotary: RotaryTable | None = None  # None: the embeddings have the positions

    def __call__(self, x: Tensor, packed: Packed, rotation: Rotation | None) -> Tensor:
        qkv = self.qkv(x).view(x.size(0), -1, self.head_dim)
        turned = qkv[:, : self.turned_heads]
        if rotation is not None:
            rotation.turn_(turned, self.qk_norm)
        elif self.qk_norm is not None:
            turned.copy_(self.qk_norm(turned))
        return self.output(self.attend(qkv, packed))


@dataclass(frozen=True, eq=False, slots=True)
class Mlp:
    up: Linear  # the activation is its own, and in a GLU (arXiv:2002.05202) the gate
    down: Linear

    def __call__(self, x: Tensor) -> Tensor:
        return self.down(self.up(x))


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """Attention, then the MLP; each is added to its input."""

    attention: SelfAttention
    attention_join: Join
    mlp: Mlp
    mlp_join: Join

    def __call__(
        self, hidden: Tensor, entered: Tensor, packed: Packed, rotation: Rotation | None
    ) -> Unjoined:
        """`hidden` [T, H], what attention reads of it, and the rotation of this layer's table."""
        attended = self.attention(entered, packed, rotation)
        hidden, entered = self.attention_join(attended, hidden)
        return Unjoined(self.mlp(entered), hidden, self.mlp_join)
