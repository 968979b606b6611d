"""What the engine asks of a family of checkpoints."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.encoder import Encoder
from engine.heads import Head
from engine.kernels import Kernels
from engine.weights import Weights


@dataclass(frozen=True)
class Family:
    prefixes: tuple[str, ...]  # that tensor names may carry
    load_encoder: Callable[[Mapping[str, Any], Weights, Kernels], Encoder]  # from config.json
    load_score_head: Callable[[Weights, int], Head]  # (weights, width of the hidden states)
    unused: tuple[str, ...]  # tensors that may be left over when encoder and head are loaded
