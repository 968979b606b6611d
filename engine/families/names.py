"""How a family names its tensors."""

from dataclasses import dataclass

from engine.weights import Weights


@dataclass(frozen=True)
class NormNames:
    """The norms of one residual: see `engine.block.Residual`."""

    before: str | None = None
    behind: str | None = None
    sum: str | None = None


@dataclass(frozen=True)
class Names:
    """Without `.weight` and `.bias`; those of a layer stand below `layer`."""

    words: str
    layer: str  # "{}" is its index
    qkv: tuple[str, ...]  # three layers, or one of all three
    attention_output: str
    attention_norms: NormNames
    mlp_in: tuple[str, ...]  # of a gated MLP gate and up, or one of both
    mlp_out: str
    mlp_norms: NormNames
    positions: str | None = None
    types: str | None = None
    embedding_norm: str | None = None
    relative_bias: str | None = None  # [buckets, heads], shared by all layers
    qk_norms: tuple[str, str] | None = None  # of queries and of keys
    final_norm: str | None = None
    up_first: bool = False  # the one matrix of gate and up has them the other way round

    def are_of(self, weights: Weights) -> bool:
        return f"{self.layer.format(0)}.{self.qkv[0]}.weight" in weights
