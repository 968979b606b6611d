"""The closed-loop suites, by name. They need a server alone."""

from bench.suites import batching, concurrency, latency, scoring, throughput
from bench.suites.suite import Suite

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        *(latency.SUITE, scoring.SUITE, throughput.SUITE),
        *(concurrency.SUITE, batching.SUITE),
    )
}
