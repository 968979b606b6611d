"""What is observed, and what is not, costs what; on a device that only waits."""

from pathlib import Path

import httpx
import pytest
from pydantic import TypeAdapter

from bench.fleet.processes import florilege
from bench.overhead.measure import OverheadEffort, OverheadResults, added_by, measure_overhead
from bench.overhead.report import overhead_markdown

COMMITTED = Path(__file__).parents[2] / "bench" / "results" / "overhead"


def silent(_: str) -> None:
    pass


async def test_both_sides_answer_alike_and_one_of_them_is_observed() -> None:
    async with florilege(("-m", "bench.overhead.server", "--simulated")) as server:
        async with httpx.AsyncClient() as client:
            told = (await client.get(server.url)).json()
            body = {"model": told["model"], "input": "a text"}
            answers = [
                await client.post(f"{told[side]}/v1/embeddings", json=body)
                for side in ("observed", "bare")
            ]
        observed, bare = (answer.json() for answer in answers)
        assert observed == bare
        assert observed["data"][0]["embedding"]
        lines = Path(f"/proc/{server.pid}/fd/1").read_text().splitlines()
        requests = [line for line in lines if '"event":"request"' in line]
        assert len(requests) == 1
        assert answers[0].headers["x-request-id"] in requests[0]


async def test_every_turn_is_timed_and_the_report_says_whether_it_is_too_much() -> None:
    effort = OverheadEffort(rounds=4, turn=3, simulated=True)
    results = await measure_overhead(effort, silent)
    for side in ("bare", "observed"):
        assert 0 < results.latencies[side].p50_ms <= results.latencies[side].max_ms
        assert 0 < results.loop_cpu_us[side] <= results.cpu_us[side]
    for added in (results.added_latency, results.added_wall, results.added_loop_cpu):
        assert added.low_us <= added.median_us <= added.high_us
    report = overhead_markdown(results)
    assert "4 rounds, 3 requests of each" in report
    assert ("ABOVE" in report) == (results.share >= 0.03)


def test_what_is_added_is_the_median_with_its_interval() -> None:
    added = added_by([number * 1e-6 for number in range(101)])
    assert added.median_us == pytest.approx(50)
    assert (added.low_us, added.high_us) == (pytest.approx(40), pytest.approx(60))
    assert added_by([1e-6]) == added_by([1e-6] * 2)


def test_committed_pages_are_those_of_their_results() -> None:
    paths = sorted(COMMITTED.glob("*.json"))
    assert paths
    for path in paths:
        results = TypeAdapter(OverheadResults).validate_json(path.read_bytes())
        assert path.with_suffix(".md").read_text() == overhead_markdown(results)
