"""What a run of `cpu` gave, as it stands in the JSON file."""

from dataclasses import dataclass, field

from bench.machine import Machine
from bench.statistics import Spread

SCHEMA = 1


@dataclass(frozen=True)
class Figure:
    """One load by one kind of kernels."""

    load: str
    kernels: str
    dtype: str
    seconds: list[float]  # of each round: the median of its repetitions
    tokens_per_s: Spread
    ratio: Spread  # how many times as fast as the last kind, of one round each
    min_cosine: float  # to plain kernels in float32


@dataclass(frozen=True)
class CpuResults:
    date: str  # ISO 8601, UTC
    machine: Machine
    model: str
    threads: int
    rounds: int
    loads: dict[str, str] = field(default_factory=dict)  # what each is
    figures: list[Figure] = field(default_factory=list)
    schema: int = SCHEMA
