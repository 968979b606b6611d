"""What the engine asks of a family of checkpoints."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.encoder import Encoder
from engine.heads.head import LoadHead
from engine.heads.splade import MlmHead
from engine.kernels import Kernels
from engine.weights import Weights


@dataclass(frozen=True)
class Family:
    prefixes: tuple[str, ...]  # that tensor names may carry
    load_encoder: Callable[[Mapping[str, Any], Weights, Kernels], Encoder]  # from config.json
    unused: tuple[str, ...] = ()  # tensors that may be left over when all else is loaded
    load_score_head: LoadHead | None = None  # of *ForSequenceClassification
    mlm_head: MlmHead | None = None  # of *ForMaskedLM, which SPLADE pools
