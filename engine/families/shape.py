"""What config.json says of a model's layers, of every family in one form."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from engine.errors import CheckpointError
from engine.families.rope import Rope
from engine.settings import Config


@dataclass(frozen=True)
class Layer:
    """What tells the layers of a model apart. Hashable: equal ones share masks and tables."""

    causal: bool = False
    window: int | None = None  # the farthest token that is seen, to each side
    rope: Rope | None = None  # None: the embeddings have the positions


@dataclass(frozen=True)
class Biases:
    qkv: bool = False
    attention_output: bool = False
    mlp_in: bool = False
    mlp_out: bool = False
    norm: bool = False


ALL_BIASES = Biases(True, True, True, True, True)


@dataclass(frozen=True)
class Shape:
    vocabulary: int
    max_positions: int  # the longest sequence
    width: int  # of the hidden states
    heads: int
    kv_heads: int
    head_dim: int
    mlp_width: int
    hidden_act: str
    eps: float
    layers: tuple[Layer, ...]
    biases: Biases = field(default_factory=Biases)
    norm: Literal["layer", "rms", "rms_plus_one"] = "layer"  # the last multiplies by 1 + weight
    gated: bool = False  # the MLP
    qk_norm: bool = False  # over each head of queries and keys
    types: int = 0  # token types with an embedding
    first_position: int = 0  # the row of the position table that a first token has
    scale: float | None = None  # of attention scores; None: 1 / √head_dim
    embedding_scale: float = 1.0
    norms_first_attention: bool = True  # False: the first layer has no norm before its attention


def head_dim_of(width: int, heads: int) -> int:
    if width % heads:
        raise CheckpointError(f"hidden_size {width} is no multiple of {heads} heads")
    return width // heads


def layer_types_of(config: Config, default: Sequence[str]) -> Sequence[str]:
    """`layer_types`, one of full_attention and sliding_attention a layer."""
    types: Sequence[str] = config.get("layer_types") or default
    if len(types) != len(default):
        raise CheckpointError(f"layer_types has {len(types)} entries for {len(default)} layers")
    for layer_type in types:
        if layer_type not in ("full_attention", "sliding_attention"):
            raise CheckpointError(f"layer_types: {layer_type!r} is not known")
    return types
