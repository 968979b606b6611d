"""What requests hold: texts of exact or mixed lengths, lines of a file, or token ids of either."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tokenizers import Tokenizer

from bench.texts import Size, Texts, mixed_lengths

_T = TypeVar("_T")

Input = str | list[int]
# Texts as they are sent.
Encode = Callable[[Sequence[str]], list[Input]]


def as_text(texts: Sequence[str]) -> list[Input]:
    return [*texts]


class InputsUnreadable(Exception):
    """A file that holds no texts, or no tokenizer."""


@dataclass(frozen=True)
class InputSource:
    """`limit`: tokens that an input may have at most; mixed lengths are cut to it.

    `corpus`: texts of the caller's own.
    """

    limit: int | None = None
    corpus: Sequence[str] = ()
    encode: Encode = as_text


class Inputs:
    """An endless stream, the same for the same seed."""

    def __init__(self, texts: Texts, source: InputSource | None = None, seed: str = "") -> None:
        self._source = source or InputSource()
        self._texts = texts
        self._mixed = _shuffled(self._lengths(), seed)
        self._lines = _shuffled(list(self._source.corpus), seed)

    def of(self, size: Size) -> Input:
        """The next input, as it is sent."""
        return self._source.encode([self.text_of(size)])[0]

    def text_of(self, size: Size) -> str:
        """The next text. Lines of a corpus come again once all were drawn, other texts never do."""
        if size == "corpus":
            return next(self._lines)
        return self._texts.of(next(self._mixed) if size == "mixed" else size)

    def _lengths(self) -> list[int]:
        limit = self._source.limit
        return [length if limit is None else min(length, limit) for length in mixed_lengths()]


def _shuffled(items: list[_T], seed: str) -> Iterator[_T]:
    order = random.Random(seed)
    while items:
        yield from order.sample(items, len(items))


def read_corpus(path: Path) -> list[str]:
    """One text a line; empty lines are none. Raises InputsUnreadable."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputsUnreadable(f"{path}: {error}") from error
    texts = [text for line in lines if (text := line.strip())]
    if not texts:
        raise InputsUnreadable(f"{path} holds no text")
    return texts


def read_encoder(path: Path) -> Encode:
    """Ids of a tokenizer.json, special tokens among them. Raises InputsUnreadable."""
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise InputsUnreadable(f"{path}: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def encode(texts: Sequence[str]) -> list[Input]:
        return [one.ids for one in tokenizer.encode_batch_fast(list(texts))]

    return encode
