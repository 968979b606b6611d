"""What a run of `tokenizers` gave, as it stands in the JSON file."""

from dataclasses import dataclass, field

from bench.machine import Machine
from bench.statistics import Spread

SCHEMA = 1


@dataclass(frozen=True)
class Speed:
    """Of one load: texts of about so many tokens."""

    tokens: int
    microseconds: Spread  # of CPU for a text
    ratio: Spread  # how many times as fast as `tokenizers` in the same round


@dataclass(frozen=True)
class LibraryRow:
    """One library with one tokenizer."""

    tokenizer: str
    library: str
    version: str
    failure: str | None  # why it was not compared
    differing: int  # texts of which it gives other ids than `tokenizers`, or none
    odd_differing: int  # the same of the odd texts
    speeds: list[Speed] = field(default_factory=list)


@dataclass(frozen=True)
class TokenizersResults:
    date: str  # ISO 8601, UTC
    machine: Machine
    texts: int  # checked
    odd_texts: int
    rounds: int
    rows: list[LibraryRow] = field(default_factory=list)
    schema: int = SCHEMA
