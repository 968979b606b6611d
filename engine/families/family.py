"""What the engine asks of a family of checkpoints."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.encoder import Encoder
from engine.heads.head import LoadHead
from engine.heads.masked_lm import MlmHead
from engine.kernels import Kernels
from engine.weights import Weights


@dataclass(frozen=True)
class Family:
    prefixes: tuple[str, ...]  # that tensor names may carry
    load_encoder: Callable[[Mapping[str, Any], Weights, Kernels], Encoder]  # from config.json
    load_score_head: LoadHead | None = None  # of *ForSequenceClassification
    mlm_head: MlmHead | None = None  # of *ForMaskedLM, which SPLADE pools
    unused: tuple[str, ...] = ()  # tensors that may be left over when all else is loaded
    unused_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # and of architectures

    def leftovers(self, config: Mapping[str, Any]) -> Sequence[str]:
        """How the names of tensors start that this checkpoint may have for nothing."""
        architectures: Sequence[str] = config.get("architectures") or ()
        heads = [self.unused_of.get(name, ()) for name in architectures]
        return [*self.unused, *(prefix for prefixes in heads for prefix in prefixes)]
