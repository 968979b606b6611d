"""What a run is drawn as: latency by load, throughput by request size, sizes of batches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from math import inf

from bench.drawing import (
    GREY,
    Decades,
    Frame,
    Line,
    Linear,
    Octaves,
    draw_bars,
    draw_lines,
    picture,
)
from bench.results import Batches, LoadRow, Results, Row
from bench.suites import batching

_GREEN, _BLUE, _RED, _PURPLE = "#229954", "#2471a3", "#c0392b", "#8e44ad"
_COLOURS = (_BLUE, _RED, _GREEN, _PURPLE)


def plots(results: Results) -> dict[str, str]:
    """SVG by name, of what there is to draw."""
    sweep = [row for row in results.rows if row.suite == batching.SUITE.name]
    drawn = {}
    if results.loads:
        drawn["load"] = load_svg(results.loads)
    if sweep:
        drawn["batching"] = batching_svg(sweep)
    if results.batches:
        drawn["batches"] = batches_svg(results.batches)
    return drawn


def load_svg(rows: Sequence[LoadRow]) -> str:
    """One row of panels for each kind of request."""
    kinds = list(dict.fromkeys((row.inputs, row.tokens) for row in rows))
    parts: list[str] = []
    for place, (inputs, tokens) in enumerate(kinds):
        of_kind = [row for row in rows if (row.inputs, row.tokens) == (inputs, tokens)]
        lengths = f"{tokens} tokens" if isinstance(tokens, int) else f"{tokens} lengths"
        title = f"{inputs} × {lengths} a request: latency, ms"
        parts += _latencies(Frame(0, place, title, "requests/s that arrive"), of_kind)
        frame = Frame(1, place, "what became of them, requests/s", "requests/s that arrive")
        parts += _answers(frame, of_kind)
    return picture(2, len(kinds), parts)


def batching_svg(rows: Sequence[Row]) -> str:
    """Tokens/s, and what a request then takes, by its tokens."""
    by_size = {row.tokens: [r for r in rows if r.tokens == row.tokens] for row in rows}
    sizes = Octaves(round(row.tokens_per_request) for row in rows)

    def lines(figure: Callable[[Row], float]) -> list[Line]:
        return [
            Line(f"texts of {size}", colour, [(round(r.tokens_per_request), figure(r)) for r in of])
            for (size, of), colour in zip(by_size.items(), cycle(_COLOURS), strict=False)
        ]

    rates = lines(lambda row: row.tokens_per_s)
    times = lines(lambda row: row.latency.p50_ms)
    x_name = "tokens a request"
    parts = [
        *draw_lines(Frame(0, 0, "tokens/s", x_name), rates, sizes, Linear(_most(rates))),
        *draw_lines(Frame(1, 0, "latency, p50, ms", x_name), times, sizes, Decades(_values(times))),
    ]
    return picture(2, 1, parts)


def batches_svg(suites: Sequence[Batches]) -> str:
    """Histograms of the batches that the server formed, one row for each suite."""
    parts: list[str] = []
    for place, batches in enumerate(suites):
        title = f"{batches.suite}: {batches.count:,} batches"
        parts += _histogram(Frame(0, place, title, "tokens, at most"), batches.by_tokens, _BLUE)
        frame = Frame(1, place, "by their sequences", "sequences, at most")
        parts += _histogram(frame, batches.by_sequences, _GREEN)
    return picture(2, len(suites), parts)


def _latencies(frame: Frame, rows: Sequence[LoadRow]) -> Iterable[str]:
    def points(name: str) -> list[tuple[float, float]]:
        ended = [row for row in rows if row.answered or row.unfinished]
        told = [getattr(row.latency, name) for row in ended]
        return [(row.rate, inf if ms is None else ms) for row, ms in zip(ended, told, strict=True)]

    lines = [
        Line("p50", _GREEN, points("p50_ms")),
        Line("p90", _BLUE, points("p90_ms")),
        Line("p99", _RED, points("p99_ms")),
    ]
    return draw_lines(frame, lines, _rates(rows), Decades(_values(lines)))


def _answers(frame: Frame, rows: Sequence[LoadRow]) -> Iterable[str]:
    lines = [
        Line("arrive", GREY, [(row.rate, row.rate) for row in rows], dashed=True),
        Line("answered", _GREEN, [(row.rate, row.requests_per_s) for row in rows]),
    ]
    others = {
        "refused": (_RED, [row.refused for row in rows]),
        "failed": (_PURPLE, [row.failed for row in rows]),
        "unfinished": (_BLUE, [row.unfinished for row in rows]),
    }
    for name, (colour, counts) in others.items():
        if any(counts):
            each = zip(rows, counts, strict=True)
            lines.append(Line(name, colour, [(row.rate, n / row.seconds) for row, n in each]))
    return draw_lines(frame, lines, _rates(rows), Linear(_most(lines)))


def _rates(rows: Sequence[LoadRow]) -> Linear:
    return Linear(max(row.rate for row in rows))


def _histogram(frame: Frame, counts: Mapping[int, int], colour: str) -> Iterable[str]:
    """From the first bound that holds a batch to the last."""
    held = [bound for bound, count in counts.items() if count]
    within = range(min(held).bit_length(), max(held).bit_length() + 1)
    bars = [(f"{2 ** (bits - 1)}", float(counts.get(2 ** (bits - 1), 0))) for bits in within]
    return draw_bars(frame, bars, colour)


def _values(lines: Iterable[Line]) -> list[float]:
    return [up for line in lines for _, up in line.points]


def _most(lines: Iterable[Line]) -> float:
    return max(_values(lines))
