"""SPLADE: a weight for each token id that a masked language model expects (arXiv:2109.10086)."""

from collections.abc import Iterator, Mapping, Sequence
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

Groups = Sequence[tuple[int, int]]  # (sequences, tokens of each)

# Logits computed at a time: 32 MiB of float32. A product with fewer tokens would be spent on
# reading the decoder's matrix.
_CHUNK_LOGITS = 1 << 23


@dataclass(frozen=True, eq=False)
class SpladeHead:
    """Of each id the largest weight that a token of the sequence gives it, or the sum."""

    lm: MaskedLm
    sums: bool
    logarithms: int  # 1, or 2 for `log1p_relu`
    chunk_tokens: int  # whose logits are computed at a time

    def compute(self, hidden: Tensor, packed: Packed) -> Tensor:
        """[T, H] -> [B, V]"""
        states = self.lm.states(hidden)
        rows: list[Tensor] = []
        start = 0
        for groups in _chunks(packed.groups, self.chunk_tokens):
            end = start + sum(sequences * tokens for sequences, tokens in groups)
            rows.append(self._pool(states[start:end], groups))
            start = end
        return torch.cat(rows)

    def collect(self, rows: Rows, packed: Packed) -> Answer:
        rows = packed.restore(rows)
        sequences, ids = np.nonzero(rows)
        return entries(sequences, ids, rows[sequences, ids], len(rows))

    def _pool(self, states: Tensor, groups: Groups) -> Tensor:
        """[chunk, H] -> [sequences, V]"""
        if len(states) > self.chunk_tokens:  # of one long sequence
            parts = torch.split(states, self.chunk_tokens)
            pooled = (self._reduce(self.lm.decoder(part)[None]) for part in parts)
            return reduce(torch.add if self.sums else torch.maximum, pooled)
        logits = torch.split(self.lm.decoder(states), [n * tokens for n, tokens in groups])
        return torch.cat(
            [
                self._reduce(part.view(n, tokens, -1))
                for part, (n, tokens) in zip(logits, groups, strict=True)
            ]
        )

    def _reduce(self, logits: Tensor) -> Tensor:
        """[sequences, tokens, V] -> [sequences, V]"""
        if self.sums:
            return self._weights(logits).sum(1)
        return self._weights(logits.amax(1))  # a weight grows with its logit

    def _weights(self, logits: Tensor) -> Tensor:
        weights = logits.float().relu()
        for _ in range(self.logarithms):
            weights = weights.log1p_()
        return weights


def _chunks(groups: Groups, chunk_tokens: int) -> Iterator[Groups]:
    """Whole sequences, so many tokens at most; a longer sequence alone."""
    chunk: list[tuple[int, int]] = []
    room = chunk_tokens
    for sequences, tokens in groups:
        left = sequences
        while left:
            fitting = min(left, max(0, room) // tokens)
            if not fitting and chunk:
                yield chunk
                chunk, room = [], chunk_tokens
                continue
            taken = max(1, fitting)
            chunk.append((taken, tokens))
            room -= taken * tokens
            left -= taken
    yield chunk


def load_splade_head(backbone: Backbone, names: MlmHead, pooling: Module | None) -> SpladeHead:
    """`pooling` is the module that follows the masked LM; None: its defaults."""
    settings = {} if pooling is None else pooling.config
    lm = load_masked_lm(backbone, names)
    return SpladeHead(
        lm,
        sums=_choice(settings, "pooling_strategy", ("max", "sum")) == "sum",
        logarithms=1 + (_choice(settings, "activation_function", _ACTIVATIONS) == "log1p_relu"),
        chunk_tokens=max(1, _CHUNK_LOGITS // lm.vocabulary),
    )


# Both take a logarithm after the ReLU; the second takes another one.
_ACTIVATIONS = ("relu", "log1p_relu")


def _choice(settings: Mapping[str, Any], key: str, known: Sequence[str]) -> str:
    value = str(settings.get(key, known[0]))
    if value not in known:
        raise CheckpointError(f"{key} {value!r} is not known: {', '.join(known)}")
    return value
