"""The suites that need a server alone, by name."""

from bench.suites import concurrency, latency, scoring
from bench.suites.suite import Suite

SUITES: dict[str, Suite] = {
    suite.name: suite for suite in (latency.SUITE, scoring.SUITE, concurrency.SUITE)
}
