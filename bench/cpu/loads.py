"""What is computed: batches of token ids, as a worker would form them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.texts import mixed_lengths
from engine.batch import Batch

_BUDGET_TOKENS = 2048  # the worker's on a CPU
_LONG_TEXTS, _LONG_TOKENS = 8, 512


@dataclass(frozen=True)
class Load:
    name: str
    about: str
    lengths: Sequence[int]  # of sequences, in the order they come
    repetitions: int = 1  # in a round

    def batches(self, vocabulary: int, seed: int) -> list[Batch]:
        """Whole sequences up to the budget; the ids are random."""
        ids = np.random.default_rng(seed)
        groups: list[list[int]] = []
        for length in self.lengths:
            if not groups or sum(groups[-1]) + length > _BUDGET_TOKENS:
                groups.append([])
            groups[-1].append(length)
        return [
            Batch(
                "embed",
                ids.integers(0, vocabulary, sum(group)).astype(np.int32),
                np.array(group, np.int32),
            )
            for group in groups
        ]


def loads(max_tokens: int) -> list[Load]:
    """Those that a model of so many positions can run."""
    mixed = [min(length, max_tokens) for length in mixed_lengths()]
    random.Random(0).shuffle(mixed)
    long = min(_LONG_TOKENS, max_tokens)
    return [
        Load("mixed", f"{len(mixed)} texts of {np.mean(mixed):.0f} tokens in the mean", mixed),
        Load("q16", "one text of 16 tokens", [16], repetitions=40),
        Load("long", f"{_LONG_TEXTS} texts of {long} tokens", [long] * _LONG_TEXTS),
    ]
