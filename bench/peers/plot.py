"""The plot of `peers` as SVG: texts a second by engine, a panel a load, the fastest on top."""

from collections.abc import Iterator, Sequence

from bench.peers.report import IN_MS, figures
from bench.peers.results import LoadRow, PeersResults

_NAME, _WIDTH, _VALUE = 250, 420, 60  # of a name, of the longest bar, of its figure
_BAR, _GAP, _TITLE = 15, 7, 44
_OURS, _PEER = "#c0392b", "#8fa3b0"


def peers_svg(results: PeersResults) -> str:
    """Bars are medians, whiskers the least and greatest round."""
    parts: list[str] = []
    top = 0
    for load in results.loads:
        rows = [row for row in results.rows if row.load == load]
        if load in IN_MS or not rows:
            continue
        parts += _panel(top, f"{load}: {results.loads[load]}", rows)
        top += _TITLE + len(rows) * (_BAR + _GAP)
    width, height = _NAME + _WIDTH + _VALUE + 20, top + 20
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">'
    )
    background = f'<rect width="{width}" height="{height}" fill="white"/>'
    return "\n".join([head, background, *parts, "</svg>"]) + "\n"


def _panel(top: int, title: str, rows: Sequence[LoadRow]) -> Iterator[str]:
    measured = sorted(((figures(row), row) for row in rows), key=lambda pair: -pair[0].median)
    most = max(spread.max for spread, _ in measured)
    yield _text(10, top + 28, f"{title}; texts/s", "start", "bold")
    for place, (spread, row) in enumerate(measured):
        y = top + _TITLE + place * (_BAR + _GAP)
        colour = _OURS if row.name.startswith("florilege") else _PEER
        low, middle, high = (
            _NAME + _WIDTH * value / most for value in (spread.min, spread.median, spread.max)
        )
        yield _text(_NAME - 8, y + 12, f"{row.name}, {row.dtype}", "end")
        yield (
            f'<rect x="{_NAME}" y="{y}" width="{middle - _NAME:.1f}" height="{_BAR}" '
            f'fill="{colour}"/>'
        )
        centre = y + _BAR / 2
        yield f'<path d="M{low:.1f} {centre}H{high:.1f}" stroke="#333333"/>'
        yield _text(high + 6, y + 12, f"{spread.median:,.0f}", "start")


def _text(x: float, y: float, text: str, anchor: str, weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="#333333">{text}</text>'
    )
