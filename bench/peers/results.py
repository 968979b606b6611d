"""What a run of `peers` gave, as it stands in the JSON file."""

from dataclasses import dataclass, field

from bench.machine import Machine
from bench.peers.witness import Turns
from bench.statistics import Spread

SCHEMA = 1


@dataclass(frozen=True)
class ContenderRow:
    """Who took part. `min_cosine`: to the reference, before anything was timed."""

    name: str
    dtype: str
    note: str
    versions: dict[str, str]
    min_cosine: float
    same_vectors: bool  # False: it computes something else, and its times are of that


@dataclass(frozen=True)
class LoadRow:
    """One contender under one load, at its best size."""

    load: str
    name: str
    dtype: str
    size: str  # how its texts were handed over; '' where each was alone
    swept: dict[str, float]  # texts/s by size, before the rounds
    rounds_s: list[float]  # seconds a text, round by round

    @property
    def key(self) -> str:
        return f"{self.name} {self.dtype}"


@dataclass(frozen=True)
class TargetRow:
    """A promise, and what the run says of it. `figure`: None where it was not measured."""

    work: str
    ours: str
    peer: str  # '' where `figure` is ours alone, in ms
    target: str
    figure: Spread | None
    reached: bool | None


@dataclass(frozen=True)
class PeersResults:
    date: str  # ISO 8601, UTC
    seed: str
    machine: Machine
    model: str
    rounds: int
    idle_cores: float  # busy on the whole machine while none had its turn
    turns: Turns  # how many the machine was slow around
    contenders: list[ContenderRow]
    loads: dict[str, str]  # what each is
    rows: list[LoadRow]
    targets: list[TargetRow]
    missing: dict[str, str] = field(default_factory=dict)  # who did not take part, and why
    ended: str = ""  # why it ended before all was measured
    schema: int = SCHEMA
