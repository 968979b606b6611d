"""Where a request's time goes, on a device that takes none of it."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter

from bench.gateway.measure import GatewayEffort, Shape, measure_gateway
from bench.gateway.report import gateway_markdown
from bench.gateway.results import STAGES, GatewayResults

COMMITTED = Path(__file__).parents[2] / "bench" / "results" / "gateway"


def silent(_: str) -> None:
    pass


async def test_every_request_is_timed_from_end_to_end_and_its_stages_are_all_of_it() -> None:
    shapes = (Shape(1, 16, 3), Shape(60, 80, 2))
    effort = GatewayEffort(rounds=2, shapes=shapes, devices=("simulated",))
    results = await measure_gateway(effort, silent)
    assert [(c.device, c.inputs, c.tokens, c.requests) for c in results.cases] == [
        ("simulated", 1, 16, 6),
        ("simulated", 60, 80, 4),
    ]
    one, many = results.cases
    assert (one.steps, many.steps) == (1, 3)  # of 2,048 tokens each: 25 texts of 80
    for case in results.cases:
        assert [*case.stages_us] == [*STAGES]
        assert all(us > 0 for us in case.stages_us.values())
        assert 0 < case.overhead.p50_ms < case.socket.max_ms
        assert 0 < case.loop_cpu_us <= case.cpu_us
    report = gateway_markdown(results)
    assert all(f"| {stage} |" in report for stage in STAGES)
    assert "60 × 80, simulated" in report


async def test_overhead_is_all_but_the_engine_and_the_tokenizer() -> None:
    effort = GatewayEffort(rounds=1, shapes=(Shape(1, 16, 1),), devices=("simulated",))
    (case,) = (await measure_gateway(effort, silent)).cases  # of one request: sums are exact
    parts_ms = case.engine.p50_ms + case.tokenize.p50_ms + case.overhead.p50_ms
    assert parts_ms == pytest.approx(case.socket.p50_ms)
    assert sum(case.stages_us.values()) / 1000 == pytest.approx(case.socket.p50_ms)


def test_committed_pages_are_those_of_their_results() -> None:
    paths = sorted(COMMITTED.glob("*.json"))
    assert paths
    for path in paths:
        results = TypeAdapter(GatewayResults).validate_json(path.read_bytes())
        assert path.with_suffix(".md").read_text() == gateway_markdown(results)
