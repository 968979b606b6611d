"""What contenders are given: the same texts for all in a round, fresh ones in the next."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from bench.peers.contender import Contender, Size
from bench.peers.models import MAX_TOKENS, Model
from bench.texts import MIXED_TEXTS, Texts

_QUERIES, _QUERY_TOKENS = 60, 16
_LONG_TEXTS = 32
_FRESH_LENGTHS = tuple(range(9, 105, 4))


class PromptedTexts(Texts):
    """Each begins with the model's prompt, whose tokens its length includes."""

    def __init__(self, seed: str, model: Model) -> None:
        super().__init__(seed, model.special_tokens)
        self._prompt = model.prompt

    def of(self, tokens: int) -> str:
        return self._prompt + super().of(tokens)


@dataclass(frozen=True)
class Load:
    """`alone`: each text by itself, and the median of them counts; else all of them together."""

    name: str
    about: str
    texts: Callable[[Texts], list[str]]
    alone: bool = False

    async def turn(self, contender: Contender, texts: list[str], size: Size | None) -> float:
        """Seconds a text."""
        if self.alone:
            return median(await contender.alone_s(texts))
        return await contender.embed_s(texts, size or contender.about.sizes[0]) / len(texts)


MIXED = Load("mixed", f"{MIXED_TEXTS} texts, 7 to 256 tokens, 81 in the mean", Texts.mixed)
Q16 = Load(
    "q16",
    f"{_QUERIES} texts of {_QUERY_TOKENS} tokens, one after another; the median counts",
    lambda texts: [texts.of(_QUERY_TOKENS) for _ in range(_QUERIES)],
    alone=True,
)
LONG = Load(
    "long",
    f"{_LONG_TEXTS} texts of {MAX_TOKENS} tokens",
    lambda texts: [texts.of(MAX_TOKENS) for _ in range(_LONG_TEXTS)],
)
LOADS = {load.name: load for load in (MIXED, Q16, LONG)}

FRESH, FRESH_AGAIN = "fresh", "fresh, again"
FRESH_ABOUT = {
    FRESH: (
        f"single texts of {len(_FRESH_LENGTHS)} lengths from {_FRESH_LENGTHS[0]} to "
        f"{_FRESH_LENGTHS[-1]} tokens, each length for the first time since the engine started; "
        "the mean counts"
    ),
    FRESH_AGAIN: "other texts of the same lengths, right after",
}


def fresh_texts(texts: Texts, order: random.Random) -> list[str]:
    lengths = order.sample(_FRESH_LENGTHS, len(_FRESH_LENGTHS))
    return [texts.of(length) for length in lengths]
