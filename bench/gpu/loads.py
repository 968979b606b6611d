"""What is to be embedded: texts of random ids, as many as a row of a table names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.batch import Batch

Ids = NDArray[np.int32]  # [tokens]

_FIRST_ID = 3  # below are the ids of paddings, which transformers counts no position for


@dataclass(frozen=True)
class Load:
    """Texts by their lengths."""

    name: str  # 50×512
    lengths: tuple[int, ...]

    @property
    def texts(self) -> int:
        return len(self.lengths)

    @property
    def tokens(self) -> int:
        return sum(self.lengths)

    def steps(self, max_tokens: int, max_texts: int = 512) -> Iterator[tuple[int, ...]]:
        """Lengths of as few steps as hold whole texts in their order."""
        step: list[int] = []
        for length in self.lengths:
            if step and (sum(step) + length > max_tokens or len(step) == max_texts):
                yield tuple(step)
                step = []
            step.append(length)
        if step:
            yield tuple(step)


def uniform(texts: int, tokens: int) -> Load:
    return Load(f"{texts}×{tokens}", (tokens,) * texts)


def mixed(name: str, lengths: Sequence[int]) -> Load:
    """In random order, as they would come."""
    order = np.random.default_rng(0).permutation(len(lengths))
    return Load(name, tuple(lengths[place] for place in order))


def random_texts(lengths: Sequence[int], vocabulary: int, seed: int = 0) -> list[Ids]:
    random = np.random.default_rng(seed)
    return [random.integers(_FIRST_ID, vocabulary, size, dtype=np.int32) for size in lengths]


def batch_of(texts: Sequence[Ids]) -> Batch:
    lengths = np.array([text.size for text in texts], dtype=np.int32)
    return Batch("embed", np.concatenate(texts), lengths)


def batches_of(load: Load, vocabulary: int, max_tokens: int) -> list[Batch]:
    """One a step."""
    steps = load.steps(max_tokens)
    return [batch_of(random_texts(step, vocabulary, seed)) for seed, step in enumerate(steps)]
