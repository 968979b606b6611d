"""The models that are measured, by their sizes: their weights are random."""

from dataclasses import dataclass, replace
from typing import Literal

from checkpoint.spec import Pooling

Architecture = Literal["bert", "xlm-roberta", "qwen3"]


@dataclass(frozen=True)
class ModelShape:
    """What decides how long a model takes. Hashable."""

    name: str
    architecture: Architecture
    pooling: Pooling
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp_width: int
    vocabulary: int
    max_tokens: int  # of a sequence
    causal: bool = False

    @property
    def gated(self) -> bool:
        """Whether the MLP has a second matrix that its first is multiplied with."""
        return self.architecture == "qwen3"

    @property
    def parameters(self) -> int:
        """Without the embeddings: those that every token is multiplied with."""
        attention = (2 * self.heads + 2 * self.kv_heads) * self.head_dim * self.width
        mlp = (3 if self.gated else 2) * self.mlp_width * self.width
        return self.layers * (attention + mlp)

    @property
    def kernels(self) -> int:
        """Of a forward whose layers are fused as far as they are to be."""
        return self.layers * (8 if self.architecture == "qwen3" else 7) + 5


QWEN3 = ModelShape(
    name="Qwen3-Embedding-0.6B",
    architecture="qwen3",
    pooling="last_token",
    layers=28,
    width=1024,
    heads=16,
    kv_heads=8,
    head_dim=128,
    mlp_width=3072,
    vocabulary=151_936,
    max_tokens=32_768,
    causal=True,
)
PPLX = replace(QWEN3, name="pplx-embed-0.6b", pooling="mean", causal=False)
BGE_M3 = ModelShape(
    name="bge-m3",
    architecture="xlm-roberta",
    pooling="cls",
    layers=24,
    width=1024,
    heads=16,
    kv_heads=16,
    head_dim=64,
    mlp_width=4096,
    vocabulary=250_002,
    max_tokens=8192,
)
MINILM = ModelShape(
    name="all-MiniLM-L6-v2",
    architecture="bert",
    pooling="mean",
    layers=6,
    width=384,
    heads=12,
    kv_heads=12,
    head_dim=32,
    mlp_width=1536,
    vocabulary=30_522,
    max_tokens=512,
)

# The quickest first: what it leaves of its time goes to the others.
MODELS = {shape.name: shape for shape in (MINILM, BGE_M3, QWEN3, PPLX)}
