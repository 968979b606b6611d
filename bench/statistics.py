"""Percentiles of latencies, and the spread of repeated figures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_PERCENTILES = (50, 90, 99, 100)


@dataclass(frozen=True)
class Latency:
    """Of the requests of one case, in milliseconds."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True)
class Tail:
    """As `Latency`, where some requests never ended: None is a percentile that one of them had."""

    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    max_ms: float | None


@dataclass(frozen=True)
class Spread:
    """Of a figure measured in every round."""

    median: float
    min: float
    max: float


def latency(samples_s: Sequence[float]) -> Latency:
    """Nearest-rank percentiles: each is a latency that a request had, none is interpolated."""
    return Latency(*_percentiles_ms(samples_s))


def tail(samples_s: Sequence[float], unfinished: int) -> Tail:
    """Those that did not end took longer than any that did. All None where nothing ended."""
    samples_s = [*samples_s, *(math.inf for _ in range(unfinished))] or [math.inf]
    return Tail(*(ms if math.isfinite(ms) else None for ms in _percentiles_ms(samples_s)))


def spread(values: Sequence[float]) -> Spread:
    return Spread(float(np.median(values)), min(values), max(values))


def _percentiles_ms(samples_s: Sequence[float]) -> list[float]:
    found = np.percentile(samples_s, _PERCENTILES, method="inverted_cdf") * 1e3
    return [float(value) for value in found]
