"""SPLADE: a weight for each token id that a masked language model expects (arXiv:2109.10086)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from checkpoint.spec import Module
from engine.batch import Batch
from engine.errors import CheckpointError
from engine.heads.entries import entries
from engine.heads.head import Answer, Backbone, Rows, RowsOf
from engine.heads.masked_lm import MaskedLm, MlmHead, load_masked_lm
from engine.join import Unjoined
from engine.packing import Layout, Packed
from engine.ragged import Ragged

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

    rows: ClassVar[RowsOf] = "sequence"

    def arrange(self, batch: Batch) -> Batch:
        return batch

    def compute(self, last: Unjoined, packed: Packed) -> Tensor:
        """[B, V]"""
        states = self.lm.states(last.states())
        if packed.ragged is not None:
            return self._compute_ragged(states, packed.ragged)
        rows: list[Tensor] = []
        start = 0
        for groups in _chunks(packed.groups, self.chunk_tokens):
            end = start + sum(sequences * tokens for sequences, tokens in groups)
            rows.append(self._pool(states[start:end], groups))
            start = end
        return torch.cat(rows)

    def collect(self, rows: Rows, layout: Layout) -> Answer:
        rows = layout.restore(rows)
        sequences, ids = np.nonzero(rows)
        return entries(sequences, ids, rows[sequences, ids], len(rows))

    def _compute_ragged(self, states: Tensor, ragged: Ragged) -> Tensor:
        """[T, H] -> [S, V]. The number of tokens alone decides what is computed."""
        slots = ragged.segments.starts.size(0)
        # One row more for the dummy tail. Weights are not negative, so zeros lose to all of them.
        rows = states.new_zeros(slots + 1, self.lm.vocabulary, dtype=torch.float32)
        tokens = torch.arange(states.size(0), dtype=torch.int32, device=states.device)
        owners = ragged.owners(tokens)[:, None].expand(-1, self.lm.vocabulary)
        reduce = "sum" if self.sums else "amax"
        for part, owner in zip(
            torch.split(states, self.chunk_tokens),
            torch.split(owners, self.chunk_tokens),
            strict=True,
        ):
            rows.scatter_reduce_(0, owner, self._weights(self.lm.decoder(part)), reduce)
        return rows[:slots]

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
