"""SPLADE: a weight for each token id that a masked language model expects (arXiv:2109.10086)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from checkpoint.spec import Module
from engine.errors import CheckpointError
from engine.heads.entries import entries
from engine.heads.head import Answer, Backbone, Rows
from engine.heads.masked_lm import MaskedLm, MlmHead, load_masked_lm
from engine.packing import Packed

# Logits computed at a time: of 30,522 ids in float32 they are 31 MB.
_CHUNK_TOKENS = 256


@dataclass(frozen=True, eq=False)
class SpladeHead:
    """Of each id the largest weight that a token of the sequence gives it, or the sum."""

    lm: MaskedLm
    sums: bool
    logarithms: int  # 1, or 2 for `log1p_relu`

    def compute(self, hidden: Tensor, packed: Packed) -> Tensor:
        """[T, H] -> [B, V]"""
        states = self.lm.states(hidden)
        rows: list[Tensor] = []
        start = 0
        for sequences, tokens in packed.groups:
            at_a_time = max(1, _CHUNK_TOKENS // tokens)
            for first in range(0, sequences, at_a_time):
                chosen = min(at_a_time, sequences - first)
                end = start + chosen * tokens
                rows.append(self._pool(states[start:end].view(chosen, tokens, -1)))
                start = end
        return torch.cat(rows)

    def collect(self, rows: Rows, packed: Packed) -> Answer:
        rows = packed.restore(rows)
        sequences, ids = np.nonzero(rows)
        return entries(sequences, ids, rows[sequences, ids], len(rows))

    def _pool(self, states: Tensor) -> Tensor:
        """[sequences, tokens, H] -> [sequences, V]; a long sequence in several chunks."""
        chunks = torch.split(states, _CHUNK_TOKENS, dim=1)
        if self.sums:
            return reduce(
                torch.add, (self._weights(self.lm.logits(chunk)).sum(1) for chunk in chunks)
            )
        # The weight grows with the logit: the largest logit has the largest weight.
        largest = (self.lm.logits(chunk).amax(1) for chunk in chunks)
        return self._weights(reduce(torch.maximum, largest))

    def _weights(self, logits: Tensor) -> Tensor:
        weights = logits.float().relu()
        for _ in range(self.logarithms):
            weights = weights.log1p_()
        return weights


def load_splade_head(backbone: Backbone, names: MlmHead, pooling: Module | None) -> SpladeHead:
    """`pooling` is the module that follows the masked LM; None: its defaults."""
    settings = {} if pooling is None else pooling.config
    return SpladeHead(
        load_masked_lm(backbone, names),
        sums=_choice(settings, "pooling_strategy", ("max", "sum")) == "sum",
        logarithms=1 + (_choice(settings, "activation_function", _ACTIVATIONS) == "log1p_relu"),
    )


# Both take a logarithm after the ReLU; the second takes another one.
_ACTIVATIONS = ("relu", "log1p_relu")


def _choice(settings: Mapping[str, Any], key: str, known: Sequence[str]) -> str:
    value = str(settings.get(key, known[0]))
    if value not in known:
        raise CheckpointError(f"{key} {value!r} is not known: {', '.join(known)}")
    return value
