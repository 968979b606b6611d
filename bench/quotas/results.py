"""What a run of `quotas` gave, as it stands in the JSON file."""

from dataclasses import dataclass, field
from typing import Literal

from bench.machine import Machine
from bench.statistics import Latency

SCHEMA = 1

Unit = Literal["tokens", "requests"]


@dataclass(frozen=True)
class KeyCount:
    """One key in the flood. All counts but `offered` and `refused` are in `unit`."""

    name: str
    unit: Unit  # of the limit that it meets
    a_minute: int
    burst: int
    well_behaved: bool  # asks for less than its limit
    offered: int  # requests
    refused: int  # requests, with 429
    failed: int  # requests with any other answer, or none
    accepted: int
    span_s: float  # from its first request to its last
    unsure_s: float  # by which that time was another where it is counted: their answers took it
    late_a_minute: float  # accepted in the window at the end, from its first to its last
    window_s: float

    @property
    def expected(self) -> float:
        """What a key at its limit is owed: its burst, and its rate for as long as it asked."""
        return self.burst + self.a_minute * self.span_s / 60

    @property
    def deviation(self) -> float:
        """Of all that was accepted, as a share of what is owed."""
        return self.accepted / self.expected - 1

    @property
    def late_deviation(self) -> float:
        """Of the rate in the window, when no burst is left."""
        return self.late_a_minute / self.a_minute - 1


@dataclass(frozen=True)
class Situation:
    """What the well-behaved keys meet while the others do something."""

    name: str
    seconds: float
    offered_per_s: float  # by all keys
    answered_per_s: float  # with 200
    count: int  # requests of the well-behaved keys
    refused: int  # of them
    failed: int  # of them
    latency: Latency  # of those answered, from the moment they were due
    lag_p99_ms: float  # how late the load itself sent, all keys
    limits_unanswered: int  # times that Redis did not answer a gateway for its limits in time
    cores: dict[str, float]  # busy, by process or kind of process


@dataclass(frozen=True)
class Cost:
    """One request at a time by a key with these limits, in turns with all the others."""

    limits: str
    count: int
    latency: Latency


@dataclass(frozen=True)
class QuotaResults:
    date: str  # ISO 8601, UTC
    machine: Machine
    gateways: int
    workers: int
    tokens: int  # a request
    times: float  # what flooding keys ask for, of their limits
    keys: list[KeyCount] = field(default_factory=list)
    situations: list[Situation] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    schema: int = SCHEMA
