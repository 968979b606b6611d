"""Tables of made-up results, and the committed ones."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter

from bench.machine import Machine
from bench.quotas.report import quotas_markdown
from bench.quotas.results import Cost, KeyCount, QuotaResults, Situation, Unit
from bench.statistics import Latency

COMMITTED = Path(__file__).parents[2] / "bench" / "results" / "redis"
MACHINE = Machine("a processor", 2, 2**34, "Linux", 0.1, {"python": "3.11"}, "abc")


def counted(
    unit: Unit, accepted: int, late_a_minute: float, well_behaved: bool = False
) -> KeyCount:
    """Of a minute at 60 a minute, after a burst of as many."""
    return KeyCount(
        *("a", unit, 60, 60, well_behaved),
        *(600, 480, 0, accepted, 60.0, 0.0, late_a_minute, 30.0),
    )


def situation(name: str, p99_ms: float) -> Situation:
    times, cores = Latency(1.0, 2.0, p99_ms, 9.0), {"gateways": 0.5, "load": 0.1}
    return Situation(name, 30.0, 900.0, 120.0, 75, 0, 0, times, 0.5, 3, cores)


def results() -> QuotaResults:
    return QuotaResults(
        date="2026",
        machine=MACHINE,
        gateways=2,
        workers=1,
        tokens=16,
        times=10.0,
        keys=[
            *(counted("tokens", 120, 60), counted("tokens", 123, 54), counted("requests", 108, 60)),
            counted("requests", 5, 1, well_behaved=True),
        ],
        situations=[situation("idle", 4.0), situation("no limits", 8.0), situation("flood", 6.0)],
        costs=[
            Cost("none", 9, Latency(2.0, 2.5, 3.0, 4.0)),
            Cost("rpm", 9, Latency(2.4, 3, 4, 5)),
        ],
    )


def test_deviations_are_of_what_a_key_is_owed() -> None:
    key = counted("tokens", 123, 54)
    assert key.expected == 120
    assert key.deviation == pytest.approx(0.025)
    assert key.late_deviation == pytest.approx(-0.1)


def test_page_tells_the_worst_key_of_each_limit_and_the_ratio_to_idle() -> None:
    page = quotas_markdown(results())
    granted = "| 2 | 60 tokens | 60 | 1,200 | 960 | 0 | +0.00% … +2.50% | -10.00% … +0.00% |"
    assert granted in page
    assert "| 1 | 60 requests | 60 | 600 | 480 | 0 | -10.00% … -10.00% | +0.00% … +0.00% |" in page
    assert (
        "| flood | 30 | 900 | 120 | 75 | 0 | 0 | 1.00 | 6.00 | 9.00 | 1.50 | 0.75 | 0.50 | 3 |"
        in page
    )
    assert "| idle | 0.50 | 0.00 | 0.00 | 0.10 | 0.00 |" in page
    assert "| rpm | 9 | 2.400 | 3.000 | 4.000 | +0.400 |" in page
    assert "3 keys at 10 times their limits and 1 at half" in page


def test_committed_pages_are_those_of_their_results() -> None:
    paths = sorted(COMMITTED.glob("*-quotas*.json"))
    assert paths
    for path in paths:
        found = TypeAdapter(QuotaResults).validate_json(path.read_bytes())
        assert path.with_suffix(".md").read_text() == quotas_markdown(found)
