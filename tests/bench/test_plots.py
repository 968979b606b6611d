"""Plots hold every point that was measured."""

from collections.abc import Iterator
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from bench.drawing import Decades, Linear, Octaves
from bench.machine import Machine
from bench.plots import plots
from bench.report import markdown
from bench.results import Batches, LoadRow, Results, Row
from bench.statistics import Latency, Tail

SVG = "{http://www.w3.org/2000/svg}"
MACHINE = Machine("a processor", 2, 2**34, "Linux", 0.1, {}, "abc")


def load_row(rate: float, p50_ms: float, **changes: object) -> LoadRow:
    row = LoadRow(
        inputs=1,
        tokens="mixed",
        rate=rate,
        share=rate / 100,
        seconds=10.0,
        arrivals=int(10 * rate),
        answered=int(10 * rate),
        refused=0,
        failed=0,
        unfinished=0,
        drain_s=10.0,
        requests_per_s=rate,
        inputs_per_s=rate,
        tokens_per_s=81 * rate,
        latency=Tail(p50_ms, 2 * p50_ms, 3 * p50_ms, 4 * p50_ms),
        most_in_flight=4,
        late_p99_ms=0.1,
        reasons={},
    )
    return replace(row, **changes)  # type: ignore[arg-type]


def batching_row(tokens: int, inputs: int) -> Row:
    total = inputs * tokens
    times = Latency(0.1 * total, 0.2 * total, 0.3 * total, 0.4 * total)
    return Row("batching", 2, inputs, tokens, 12, total, 1.0, times, 12.0 * inputs, 12.0 * total)


def results(**parts: object) -> Results:
    empty = Results("2026", "7", "http://h", "m", {}, MACHINE, None)
    return replace(empty, **parts)  # type: ignore[arg-type]


LOADS = [load_row(10, 2.0), load_row(50, 3.0), load_row(90, 20.0), load_row(120, 900.0)]


def drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)  # noqa: S314 - our own


def polylines(svg: str) -> Iterator[list[tuple[float, float]]]:
    for line in drawn(svg).iter(f"{SVG}polyline"):
        pairs = (pair.split(",") for pair in line.attrib["points"].split())
        yield [(float(x), float(y)) for x, y in pairs]


def names(svg: str) -> set[str | None]:
    return {text.text for text in drawn(svg).iter(f"{SVG}text")}


def test_load_plot_has_every_percentile_of_every_rate() -> None:
    svg = plots(results(loads=LOADS))["load"]
    assert [len(line) for line in polylines(svg)] == [4, 4, 4, 4, 4]  # three, arrive, answered
    assert {"p50", "p90", "p99", "arrive", "answered", "requests/s that arrive"} <= names(svg)
    p50, p90, p99 = list(polylines(svg))[:3]
    assert [x for x, _ in p50] == sorted(x for x, _ in p50)
    assert all(low[1] > mid[1] > high[1] for low, mid, high in zip(p50, p90, p99, strict=True))


def test_percentile_that_never_ended_is_marked_at_the_top() -> None:
    lost = load_row(150, 900.0, latency=Tail(900.0, None, None, None), unfinished=700, refused=30)
    svg = plots(results(loads=[*LOADS, lost]))["load"]
    assert [len(line) for line in list(polylines(svg))[:3]] == [5, 4, 4]
    marks = [path for path in drawn(svg).iter(f"{SVG}path") if "fill" in path.attrib]
    assert len(marks) == 2  # p90 and p99
    assert {"unfinished", "refused"} <= names(svg)
    assert "failed" not in names(svg)


def test_rate_under_which_nothing_ended_has_no_latency() -> None:
    none = Tail(None, None, None, None)
    quiet = load_row(5, 0.0, arrivals=0, answered=0, latency=none)
    refused = load_row(150, 0.0, answered=0, refused=1_500, latency=none)
    for loads in ([*LOADS, quiet, refused], [quiet, refused]):
        svg = plots(results(loads=loads))["load"]
        marks = [path for path in drawn(svg).iter(f"{SVG}path") if "fill" in path.attrib]
        assert not marks
        page = markdown(results(loads=loads), {})
        assert "∞" not in page
        assert "| – | – | – | – |" in page


def test_load_plot_has_a_row_for_each_kind_of_request() -> None:
    others = [replace(row, tokens=128, inputs=4) for row in LOADS]
    svg = plots(results(loads=[*LOADS, *others]))["load"]
    assert len(list(polylines(svg))) == 10
    titles = {"1 × mixed lengths a request: latency, ms", "4 × 128 tokens a request: latency, ms"}
    assert titles <= names(svg)


def test_batching_plot_has_every_request_size() -> None:
    rows = [batching_row(tokens, inputs) for tokens in (128, 256) for inputs in (1, 4, 16)]
    svg = plots(results(rows=rows))["batching"]
    assert [len(line) for line in polylines(svg)] == [3, 3, 3, 3]
    assert {"texts of 128", "texts of 256", "tokens/s", "128", "4096"} <= names(svg)


def test_histogram_has_a_bar_for_every_size_between_the_first_and_the_last() -> None:
    batches = Batches("load", 30, 9000.0, {16: 4, 32: 0, 64: 6, 128: 20, 256: 0}, {1: 10, 2: 20})
    svg = plots(results(batches=[batches]))["batches"]
    background, *bars = drawn(svg).iter(f"{SVG}rect")
    assert background.attrib["fill"] == "white"
    heights = [float(bar.attrib["height"]) for bar in bars]
    assert len(heights) == 4 + 2
    assert heights[1] == 0
    assert heights[3] == pytest.approx(5 * heights[0], abs=0.5)
    assert {"16", "32", "64", "128", "load: 30 batches"} <= names(svg)
    assert "256" not in names(svg)


def test_nothing_is_drawn_of_what_was_not_measured() -> None:
    assert plots(results()) == {}


@pytest.mark.parametrize(
    "scale", [Linear(37.0), Octaves([1, 8, 2]), Decades([0.3, 42.0])], ids=["x", "x2", "x10"]
)
def test_scales_grow_and_keep_their_ticks_within_the_axis(
    scale: Linear | Octaves | Decades,
) -> None:
    places = [scale.place(tick) for tick in scale.ticks]
    assert places == sorted(places)
    assert places[0] == pytest.approx(0)
    assert places[-1] == pytest.approx(1)
