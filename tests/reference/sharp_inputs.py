"""What the sharp checkpoints are asked: texts, pairs, and bare ids of every length."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from reference.sharp_families import MAX_TOKENS
from reference.sharp_tokenizers import WORDS


@dataclass(frozen=True)
class Pairs:
    """One query and its documents."""

    query: str
    documents: tuple[str, ...]


def pairs() -> tuple[Pairs, ...]:
    """Empty documents, every total length up to the limit, and documents cut to it."""
    words = _Words(seed=1)
    lengths = (*range(MAX_TOKENS - 4), 80, 200)
    every_length = tuple(words.text(length) for length in lengths)
    return (
        Pairs("golden river", every_length),
        Pairs(words.text(40), ("", "stone", words.text(30), words.text(100))),
        Pairs("Which Doctor writes, and Reads?", _ODD),
        Pairs("жé語", (*_ODD, "golden river")),
    )


def flat(queries: Iterable[Pairs]) -> Iterator[tuple[str, str]]:
    """(query, document), the documents of a query in order."""
    return ((pairs.query, document) for pairs in queries for document in pairs.documents)


def texts() -> tuple[str, ...]:
    """As `pairs`, one sequence each."""
    words = _Words(seed=2)
    return (*_ODD, *(words.text(length) for length in (*range(1, MAX_TOKENS, 3), 62, 63, 64, 200)))


def sequences(vocab_size: int) -> list[NDArray[np.int32]]:
    """Ids of every length from 1 to the limit, special tokens nowhere in particular."""
    generator = np.random.Generator(np.random.PCG64(3))
    first = 5  # past the special tokens: transformers takes positions from where padding ids are
    return [
        (first + generator.random(length) * (vocab_size - first)).astype(np.int32)
        for length in range(1, MAX_TOKENS + 1)
    ]


def type_ids(lengths: Iterable[int]) -> list[NDArray[np.uint8]]:
    """For `sequences`: the second half of each is of type 1."""
    return [(np.arange(length) >= length / 2).astype(np.uint8) for length in lengths]


class _Words:
    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def text(self, words: int) -> str:
        picks = (self._generator.random(words) * len(WORDS)).astype(int)
        return " ".join(WORDS[pick] for pick in picks)


_ODD = (
    "",
    " ",
    "stone",
    "The captain WALKS over mountains; the evening music turns golden.",
    "writing reader walked slowest lettered",
    "x",
    "42 rivers, 7 stones - 1 window!",
    "café жук あ語 語あ",
    "𝔘nknown 😀 characters ☃ here",
    "  spaces\tand\nlines  ",
    "abcdefghijklmnopqrstuvwxyz",
    "z" * 101,
    "...!!!???",
)
