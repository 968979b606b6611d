"""Ratios, and whether one has fallen. More is better in all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from bench.machine import Machine
from bench.statistics import Spread, spread

SCHEMA = 1
_LEAST_NOISE = 0.03
_NOISE_OF_RANGE = 1.5

State = Literal["holds", "fell", "missing", "skipped", "not committed"]


@dataclass(frozen=True)
class Ratio:
    """One ratio of every round; its median is the figure."""

    name: str
    rounds: Sequence[float]

    @property
    def spread(self) -> Spread:
        return spread(self.rounds)


@dataclass(eq=False)
class Measured:
    """`skipped`: why a ratio could not be measured on this machine, by its name."""

    ratios: list[Ratio] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    others_cores: float = 0.0  # the most that other work took meanwhile


@dataclass(frozen=True)
class CommittedRatio:
    """`noise`: the share by which it may fall short."""

    name: str
    ratio: float
    noise: float
    runs: Sequence[float]  # the medians of the runs that it was made of

    @property
    def floor(self) -> float:
        return self.ratio * (1 - self.noise)


@dataclass(frozen=True)
class Committed:
    date: str  # ISO 8601, UTC
    machine: Machine
    ratios: list[CommittedRatio]
    others_cores: float  # what other work took in the worst of the runs
    schema: int = SCHEMA


@dataclass(frozen=True)
class Verdict:
    name: str
    state: State
    committed: CommittedRatio | None = None
    measured: Spread | None = None
    reason: str = ""  # of what was skipped

    @property
    def fails(self) -> bool:
        return self.state in ("fell", "missing", "not committed")


def compare(committed: Sequence[CommittedRatio], measured: Measured) -> list[Verdict]:
    """One for each ratio that either names."""
    found = {ratio.name: ratio for ratio in measured.ratios}
    known = {ratio.name: ratio for ratio in committed}
    return [_verdict(n, known, found, measured.skipped) for n in dict.fromkeys((*known, *found))]


def _verdict(
    name: str,
    known: Mapping[str, CommittedRatio],
    found: Mapping[str, Ratio],
    skipped: Mapping[str, str],
) -> Verdict:
    if name not in known:
        return Verdict(name, "not committed", measured=found[name].spread)
    if name in found:
        now = found[name].spread
        holds = now.median >= known[name].floor  # so that NaN does not hold
        return Verdict(name, "holds" if holds else "fell", known[name], now)
    if name in skipped:
        return Verdict(name, "skipped", known[name], reason=skipped[name])
    return Verdict(name, "missing", known[name])


def settle(runs: Sequence[Measured]) -> list[CommittedRatio]:
    """What to commit after several runs of everything.

    The noise is one and a half times the range of the runs' medians, 3 % at least: of five runs
    that is some 3.5 standard deviations, so that chance alone seldom fails.
    """
    names = [ratio.name for ratio in runs[0].ratios]
    medians = {
        name: [r.spread.median for run in runs for r in run.ratios if r.name == name]
        for name in names
    }
    return [_settled(name, values) for name, values in medians.items()]


def _settled(name: str, values: Sequence[float]) -> CommittedRatio:
    middle = median(values)
    reach = _NOISE_OF_RANGE * (max(values) - min(values)) / middle
    return CommittedRatio(name, round(middle, 4), round(max(reach, _LEAST_NOISE), 4), values)
