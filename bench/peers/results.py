"""What a comparison with peers gave."""

from dataclasses import dataclass

from bench.statistics import Spread


@dataclass(frozen=True)
class ContenderRow:
    """One engine on the mixed corpus at its best size."""

    name: str
    dtype: str
    size: int  # texts a batch, or a request for a server
    swept: dict[int, float]  # texts/s by size, before the rounds
    min_cosine: float | None  # to the reference; None where it was not checked
    texts_per_s: Spread
    rounds_s: list[float]  # seconds for the corpus, round by round
    versions: dict[str, str]


@dataclass(frozen=True)
class Ratio:
    """Texts/s of our server over a peer's, within each round."""

    ours: str
    peer: str
    ratio: Spread


@dataclass(frozen=True)
class Comparison:
    """Rounds in which every contender embedded the same corpus, in random order."""

    texts: int
    rounds: int
    contenders: list[ContenderRow]
    ratios: list[Ratio]
