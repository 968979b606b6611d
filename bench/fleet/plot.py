"""The plot of `scale` as SVG: for each kind of request its rate, and who is busy."""

from collections.abc import Iterable, Sequence

from bench.drawing import GREY, Frame, Line, Linear, Octaves, draw_lines, picture
from bench.fleet.cpu import OTHERS
from bench.fleet.report import shapes
from bench.fleet.results import ScaleResults, ScaleRow

_COLOURS = {
    "gateway": "#c0392b",
    "redis": "#8e44ad",
    "workers": "#2471a3",
    "load": "#229954",
    OTHERS: "#7f8c8d",
}


def scale_svg(results: ScaleResults) -> str:
    kinds = shapes(results)
    parts: list[str] = []
    for place, (inputs, tokens) in enumerate(kinds):
        rows = [row for row in results.rows if (row.inputs, row.tokens) == (inputs, tokens)]
        what = f"{inputs} × {tokens} tokens a request"
        rates = _rates(rows, results.device_tokens_per_s)
        parts += _panel(Frame(0, place, f"{what}: requests/s", "workers"), rates)
        title = f"cores busy, of {results.machine.cores}"
        parts += _panel(Frame(1, place, title, "workers"), _cores(rows))
    return picture(2, len(kinds), parts)


def _rates(rows: Sequence[ScaleRow], device_tokens_per_s: float) -> list[Line]:
    """The devices' line ends where it would dwarf what was measured."""
    measured = [(row.workers, row.requests_per_s) for row in rows]
    most = 1.5 * max(rate for _, rate in measured)
    device = device_tokens_per_s / (rows[0].inputs * rows[0].tokens)
    devices = [(row.workers, row.workers * device) for row in rows]
    shown = [(workers, rate) for workers, rate in devices if rate <= most]
    lines = [Line("measured", _COLOURS["gateway"], measured)]
    return [*lines, Line("devices", GREY, shown, dashed=True)] if shown else lines


def _cores(rows: Sequence[ScaleRow]) -> list[Line]:
    return [
        Line(name, colour, [(row.workers, row.cores[name]) for row in rows])
        for name, colour in _COLOURS.items()
    ]


def _panel(frame: Frame, lines: Sequence[Line]) -> Iterable[str]:
    """`lines` over workers, whose axis is logarithmic."""
    workers, values = zip(*(point for line in lines for point in line.points), strict=True)
    return draw_lines(frame, lines, Octaves(workers), Linear(max(values)))
