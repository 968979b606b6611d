"""Tables and plot of made-up results, and the committed ones."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pydantic import TypeAdapter

from bench.fleet.plot import scale_svg
from bench.fleet.report import hop_markdown, scale_markdown
from bench.fleet.results import HopResults, HopRow, ScaleHop, ScaleResults, ScaleRow
from bench.fleet.ways import BARE, GATEWAY_AND_WORKER, MEMORY, ONE_PROCESS, REDIS
from bench.machine import Machine
from bench.statistics import Latency

COMMITTED = Path(__file__).parents[2] / "bench" / "results" / "redis"
SVG = "{http://www.w3.org/2000/svg}"
MACHINE = Machine("a processor", 2, 2**34, "Linux", 0.1, {"python": "3.11"}, "abc")
CORES = {"gateway": 0.5, "redis": 0.1, "workers": 0.2, "load": 0.2, "others": 0.0}


def times(p50_ms: float) -> Latency:
    return Latency(p50_ms, 2 * p50_ms, 3 * p50_ms, 4 * p50_ms)


def hop_results() -> HopResults:
    medians = {MEMORY: 0.1, BARE: 0.2, REDIS: 0.4, ONE_PROCESS: 2.0, GATEWAY_AND_WORKER: 3.0}
    stages, cpu_us = {"back": 0.01}, {"gateway": 5.0}
    rows = [HopRow(name, 10, times(p50), stages, cpu_us) for name, p50 in medians.items()]
    return HopResults("2026", MACHINE, 512, 1, 0.0, 0.0, rows, [])


def scale_row(workers: int, requests_per_s: float) -> ScaleRow:
    tokens_per_s = 512 * requests_per_s
    share = tokens_per_s / workers / 50_000
    return ScaleRow(
        workers, 2, 256, 16, 100, times(9.0), requests_per_s, tokens_per_s, share, CORES
    )


@pytest.fixture
def scale_results() -> ScaleResults:
    rows = [scale_row(1, 90.0), scale_row(2, 180.0), scale_row(8, 250.0)]
    hops = [ScaleHop(1, 10, times(2.0), times(2.5))]
    return ScaleResults("2026", MACHINE, 50_000, 1.0, rows, hops)


def test_hop_adds_what_lies_between_the_percentiles() -> None:
    page = hop_markdown(hop_results())
    assert "| a job of 512 tokens | +0.300 | +0.600 | +0.900 |" in page
    assert "| a request of 512 tokens | +1.000 | +2.000 | +3.000 |" in page


def test_scale_names_every_process_and_what_is_idle(scale_results: ScaleResults) -> None:
    page = scale_markdown(scale_results, "plot.svg")
    assert "(plot.svg)" in page
    row = "| 8 | 16 | 100 | 250.0 | 128,000 | 32% | 9.0 | 27.0 |"
    assert f"{row} 0.50 | 0.10 | 0.20 | 0.20 | 0.00 | 1.00 | 2.00 |" in page
    assert "| 1 | 10 | 2.00 | 6.00 | 2.50 | 7.50 | +0.500 | +1.500 |" in page


def test_plot_shows_every_row_and_names_every_line(scale_results: ScaleResults) -> None:
    drawn = ElementTree.fromstring(scale_svg(scale_results))  # noqa: S314  our own
    lines = [len(line.attrib["points"].split()) for line in drawn.iter(f"{SVG}polyline")]
    assert sorted(lines) == [2, 3, 3, 3, 3, 3, 3]  # eight devices would dwarf the gateway
    names = {text.text for text in drawn.iter(f"{SVG}text")}
    assert {"measured", "devices", *CORES, "1", "2", "8", "workers"} <= names


def test_plot_draws_more_higher(scale_results: ScaleResults) -> None:
    measured = next(line for line in points(scale_svg(scale_results)) if len(line) == 3)
    assert measured[0][0] < measured[1][0] < measured[2][0]
    assert measured[0][1] > measured[1][1] > measured[2][1]  # y points down


def test_plot_of_one_count_of_workers_is_a_point(scale_results: ScaleResults) -> None:
    drawn = scale_svg(replace(scale_results, rows=scale_results.rows[:1]))
    assert all(len(line) == 1 for line in points(drawn))


def test_committed_pages_are_those_of_their_results() -> None:
    hops = sorted(COMMITTED.glob("*-hop*.json"))
    scales = sorted(COMMITTED.glob("*-scale*.json"))
    assert hops
    assert scales
    for path in hops:
        hop = TypeAdapter(HopResults).validate_json(path.read_bytes())
        assert path.with_suffix(".md").read_text() == hop_markdown(hop)
    for path in scales:
        scale = TypeAdapter(ScaleResults).validate_json(path.read_bytes())
        plot = path.with_suffix(".svg")
        assert path.with_suffix(".md").read_text() == scale_markdown(scale, plot.name)
        assert plot.read_text() == scale_svg(scale)


def points(svg: str) -> Iterator[list[tuple[float, float]]]:
    drawn = ElementTree.fromstring(svg)  # noqa: S314  our own
    for line in drawn.iter(f"{SVG}polyline"):
        pairs = (pair.split(",") for pair in line.attrib["points"].split())
        yield [(float(x), float(y)) for x, y in pairs]
