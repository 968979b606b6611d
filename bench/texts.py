"""Texts of an exact number of tokens, the same for the same seed and different in every request.

Needs the standard library alone: `reference/make.py` runs it in the peers' environment.
"""

import math
import random
from statistics import NormalDist
from typing import Literal

# Tokens an input; or their lengths are those of the mixed corpus, or of lines of a file.
Size = int | Literal["mixed", "corpus"]

MIXED_TEXTS = 256
MIXED_MIN_TOKENS, MIXED_MEAN_TOKENS, MIXED_MAX_TOKENS = 7, 81, 256
_MIXED_SIGMA = 0.8  # of the logarithm: the shortest of 256 texts is then a twelfth of the mean


class Texts:
    """An endless stream of texts. `special_tokens`: what a tokenizer adds to each, [CLS] and [SEP].

    Only `random.random` is used, whose stream Python promises to keep.
    """

    def __init__(self, seed: str, special_tokens: int = 2) -> None:
        self._random = random.Random(seed)
        self._special_tokens = special_tokens

    def of(self, tokens: int) -> str:
        """The next text, of `tokens` tokens, special ones included."""
        words = max(tokens - self._special_tokens, 1)
        return " ".join(self._word() for _ in range(words))

    def mixed(self) -> list[str]:
        """`MIXED_TEXTS` texts of the mixed lengths, shuffled; fresh words on every call."""
        texts = [self.of(tokens) for tokens in mixed_lengths()]
        return [text for _, text in sorted((self._random.random(), text) for text in texts)]

    def _word(self) -> str:
        return _VOCABULARY[int(self._random.random() * len(_VOCABULARY))]


def mixed_lengths() -> list[int]:
    """Tokens of each text of the mixed corpus: the quantiles of a lognormal, cut at both ends."""
    low, high = 0.0, math.log(MIXED_MAX_TOKENS)
    while high - low > 1e-6:  # the mean of the cut distribution has no closed form
        mu = (low + high) / 2
        lengths = _quantiles(mu)
        if sum(lengths) < MIXED_MEAN_TOKENS * MIXED_TEXTS:
            low = mu
        else:
            high = mu
    return lengths


def _quantiles(mu: float) -> list[int]:
    normal = NormalDist(mu, _MIXED_SIGMA)
    points = ((i + 0.5) / MIXED_TEXTS for i in range(MIXED_TEXTS))
    lengths = (round(math.exp(normal.inv_cdf(point))) for point in points)
    return [min(max(tokens, MIXED_MIN_TOKENS), MIXED_MAX_TOKENS) for tokens in lengths]


# Each is one token of all-MiniLM-L6-v2, and common enough to be one for other tokenizers. The
# server's own count is asked before anything is timed.
_VOCABULARY_TEXT = """
the and for with from about into over after under between through down only many some more
time year people way day man woman child world life hand part place case week company system
program question work government number night point home water room mother area money story
fact month lot right study book eye job word business issue side kind head house service
friend father power hour game line end member law car city community name president team
minute idea body information back parent face level office door health person art war
history party result change morning reason research girl guy moment air teacher force
education good new first last long great little own other old big high different small large
next early young important public bad same able
"""
_VOCABULARY = tuple(_VOCABULARY_TEXT.split())
