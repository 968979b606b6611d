"""Keys that ask for ten times their limits get their limits, and nobody else feels it."""

import asyncio

import pytest

from bench.quotas.measure import LIMITED, REST, REST_AGAIN, UNLIMITED, QuotaEffort, measure_quotas
from bench.quotas.results import KeyCount, QuotaResults

# As `python -m bench quotas`, which takes minutes, but for fewer keys, with less of a burst.
EFFORT = QuotaEffort(
    flooding=9,
    well_behaved=2,
    a_minute=120,
    burst_s=3.0,
    flood_s=8.0,
    window_s=4.0,
    rest_s=1.0,
    rounds=5,
)


@pytest.fixture(scope="module")
def results() -> QuotaResults:
    """Of two gateways on one database, one Redis and a simulated worker."""
    return asyncio.run(measure_quotas(EFFORT, lambda _: None))


def each_of(key: KeyCount) -> int:
    return 1 if key.unit == "requests" else 16


def test_a_flood_is_granted_its_burst_and_its_rate_and_no_more(results: QuotaResults) -> None:
    flooding = [key for key in results.keys if not key.well_behaved]
    assert {key.unit for key in flooding} == {"tokens", "requests"}
    for key in flooding:
        assert (key.offered, key.failed) == (160, 0)
        each = each_of(key)
        assert key.refused == key.offered - key.accepted // each
        # A request is granted whole, and its moment is known as well as its answer tells.
        tolerance = each + key.a_minute * key.unsure_s / 60
        assert key.accepted == pytest.approx(key.expected, abs=tolerance), key
        assert key.accepted / each == pytest.approx(22, abs=3)  # 6 at once, 2 a second for 8 s


def test_no_key_feels_what_others_do(results: QuotaResults) -> None:
    for key in results.keys:
        if key.well_behaved:
            assert (key.refused, key.failed) == (0, 0)
            assert key.accepted == key.offered == 40
    situations = {situation.name: situation for situation in results.situations}
    assert [*situations] == [REST, UNLIMITED, LIMITED, REST_AGAIN]
    for situation in situations.values():
        assert (situation.refused, situation.failed) == (0, 0)
    assert situations[UNLIMITED].answered_per_s == situations[UNLIMITED].offered_per_s


def test_what_limits_cost_is_measured_of_every_kind(results: QuotaResults) -> None:
    assert [cost.count for cost in results.costs] == [5] * 4
    assert all(cost.latency.p50_ms > 0 for cost in results.costs)
