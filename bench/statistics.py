"""Percentiles of latencies, and the spread of repeated figures."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Latency:
    """Of the requests of one case, in milliseconds."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True)
class Spread:
    """Of a figure measured in every round."""

    median: float
    min: float
    max: float


def latency(samples_s: Sequence[float]) -> Latency:
    """Nearest-rank percentiles: each is a latency that a request had, none is interpolated."""
    p50, p90, p99 = np.percentile(samples_s, (50, 90, 99), method="inverted_cdf") * 1e3
    return Latency(float(p50), float(p90), float(p99), max(samples_s) * 1e3)


def spread(values: Sequence[float]) -> Spread:
    return Spread(float(np.median(values)), min(values), max(values))
