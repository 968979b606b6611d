"""One transformer layer over packed tokens: the same for every family."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from engine.activation import Activation
from engine.attention import Attention
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
        if rotation is not None or self.qk_norm is not None:
            turned = qkv[:, : self.turned_heads]
            if self.qk_norm is not None:
                turned.copy_(self.qk_norm(turned))
            if rotation is not None:
                rotation.turn_(turned)
        return self.output(self.attend(qkv, packed))


class Mlp(Protocol):
    def __call__(self, x: Tensor) -> Tensor:  # [T, H] -> [T, H]
        ...


@dataclass(frozen=True, eq=False, slots=True)
class PlainMlp:
    up: Linear  # the activation is its own
    down: Linear

    def __call__(self, x: Tensor) -> Tensor:
        return self.down(self.up(x))


@dataclass(frozen=True, eq=False, slots=True)
class GatedMlp:
    """GLU and its kin (arXiv:2002.05202)."""

    gate_up: Linear  # one product: first the half that the activation is applied to
    activation: Activation
    down: Linear

    def __call__(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(self.activation(gate).mul_(up))


@dataclass(frozen=True, eq=False, slots=True)
class Residual:
    """x + f(x) and its norms: `sum` in a post-norm block, `before` in a pre-norm one, `before` and
    `behind` in a sandwich.
    """

    before: Norm | None = None  # of what f is given
    behind: Norm | None = None  # of what it returns
    sum: Norm | None = None

    def enter(self, hidden: Tensor) -> Tensor:
        return hidden if self.before is None else self.before(hidden)

    def leave(self, branch: Tensor, hidden: Tensor) -> Tensor:
        if self.behind is not None:
            branch = self.behind(branch)
        total = branch.add_(hidden)
        return total if self.sum is None else self.sum(total)


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """Attention, then the MLP; each is added to its input."""

    attention: SelfAttention
    attention_residual: Residual
    mlp: Mlp
    mlp_residual: Residual

    def __call__(self, hidden: Tensor, packed: Packed, rotation: Rotation | None) -> Tensor:
        """[T, H] -> [T, H]; `rotation` is that of this layer's table."""
        attended = self.attention(self.attention_residual.enter(hidden), packed, rotation)
        hidden = self.attention_residual.leave(attended, hidden)
        return self.mlp_residual.leave(self.mlp(self.mlp_residual.enter(hidden)), hidden)
