"""Percentiles and spreads."""

import pytest

from bench.statistics import latency, spread


def test_percentiles_are_those_of_a_known_sample() -> None:
    samples_s = [(37 * ms % 101) / 1e3 for ms in range(1, 101)]  # 1 to 100 ms, out of order
    found = latency(samples_s)
    assert (found.p50_ms, found.p90_ms, found.p99_ms, found.max_ms) == pytest.approx(
        (50, 90, 99, 100)
    )


def test_percentile_is_a_latency_that_was_measured() -> None:
    samples_s = [0.001, 0.002, 0.1]
    found = latency(samples_s)
    assert found.p50_ms == pytest.approx(2)
    assert found.p90_ms == found.p99_ms == found.max_ms == pytest.approx(100)


def test_one_sample_is_every_percentile() -> None:
    found = latency([0.25])
    assert {found.p50_ms, found.p90_ms, found.p99_ms, found.max_ms} == {250.0}


def test_spread_is_median_and_ends() -> None:
    found = spread([3.0, 1.0, 2.0, 10.0, 2.5])
    assert (found.median, found.min, found.max) == (2.5, 1.0, 10.0)
