"""The plot of `scale` as SVG: for each kind of request its rate, and who is busy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log2

from bench.fleet.cpu import OTHERS
from bench.fleet.report import shapes
from bench.fleet.results import ScaleResults, ScaleRow

_WIDTH, _HEIGHT = 330, 190  # of what an axis encloses
_LEFT, _TOP, _GAP_X, _GAP_Y = 70, 50, 150, 80
_COLOURS = {
    "gateway": "#c0392b",
    "redis": "#8e44ad",
    "workers": "#2471a3",
    "load": "#229954",
    OTHERS: "#7f8c8d",
}
_STEPS = (1, 2, 5)


@dataclass(frozen=True)
class Line:
    name: str
    colour: str
    points: Sequence[tuple[float, float]]  # (workers, value)
    dashed: bool = False


def scale_svg(results: ScaleResults) -> str:
    kinds = shapes(results)
    parts: list[str] = []
    for place, (inputs, tokens) in enumerate(kinds):
        rows = [row for row in results.rows if (row.inputs, row.tokens) == (inputs, tokens)]
        y = _TOP + place * (_HEIGHT + _GAP_Y)
        what = f"{inputs} × {tokens} tokens a request"
        rates = _rates(rows, results.device_tokens_per_s)
        parts += _panel(_LEFT, y, f"{what}: requests/s", rates)
        title = f"cores busy, of {results.machine.cores}"
        parts += _panel(_LEFT + _WIDTH + _GAP_X, y, title, _cores(rows))
    width = _LEFT + 2 * _WIDTH + 2 * _GAP_X - 30
    height = _TOP + len(kinds) * (_HEIGHT + _GAP_Y) - 20
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">'
    )
    background = f'<rect width="{width}" height="{height}" fill="white"/>'
    return "\n".join([head, background, *parts, "</svg>"]) + "\n"


def _rates(rows: Sequence[ScaleRow], device_tokens_per_s: float) -> list[Line]:
    """The devices' line ends where it would dwarf what was measured."""
    measured = [(row.workers, row.requests_per_s) for row in rows]
    most = 1.5 * max(rate for _, rate in measured)
    device = device_tokens_per_s / (rows[0].inputs * rows[0].tokens)
    devices = [(row.workers, row.workers * device) for row in rows]
    shown = [(workers, rate) for workers, rate in devices if rate <= most]
    lines = [Line("measured", _COLOURS["gateway"], measured)]
    return [*lines, Line("devices", "#999999", shown, dashed=True)] if shown else lines


def _cores(rows: Sequence[ScaleRow]) -> list[Line]:
    return [
        Line(name, colour, [(row.workers, row.cores[name]) for row in rows])
        for name, colour in _COLOURS.items()
    ]


def _panel(left: float, top: float, title: str, lines: Sequence[Line]) -> Iterable[str]:
    """`lines` over workers, whose axis is logarithmic."""
    workers = sorted({x for line in lines for x, _ in line.points})
    first, span = log2(workers[0]), log2(workers[-1]) - log2(workers[0]) or 1.0
    step = _step(max(y for line in lines for _, y in line.points))
    most = step * 5
    bottom = top + _HEIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        return left + (log2(x) - first) / span * _WIDTH, bottom - y / most * _HEIGHT

    yield f'<text x="{left}" y="{top - 14}" font-weight="bold">{title}</text>'
    for number in range(6):
        y = bottom - number * _HEIGHT / 5
        yield f'<path d="M{left} {y:.1f}h{_WIDTH}" stroke="#e5e5e5"/>'
        yield _text(left - 8, y + 4, f"{number * step:,g}", "end")
    for count in workers:
        yield _text(place(count, 0)[0], bottom + 18, f"{count:g}", "middle")
    yield _text(left + _WIDTH / 2, bottom + 36, "workers", "middle")
    label_y = float("inf")
    for line in sorted(lines, key=lambda line: line.points[-1][1]):
        points = [place(x, y) for x, y in line.points]
        yield from _draw(line, points)
        label_y = min(points[-1][1], label_y - 14)  # no label upon another
        yield _text(points[-1][0] + 8, label_y + 4, line.name, "start", line.colour)


def _draw(line: Line, points: Sequence[tuple[float, float]]) -> Iterable[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="5 4"' if line.dashed else ""
    yield f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2"{dash}/>'
    if not line.dashed:
        for x, y in points:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{line.colour}"/>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


def _step(most: float) -> float:
    """Round, and five of it are no less."""
    power = 1e-6
    while True:
        for step in _STEPS:
            if step * power * 5 >= most:
                return step * power
        power *= 10
