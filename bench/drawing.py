"""Panels of lines or bars as SVG: axes, labels, points."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log2, log10
from typing import Protocol

_WIDTH, _HEIGHT = 330, 190  # of what an axis encloses
_LEFT, _TOP, _GAP_X, _GAP_Y = 70, 50, 150, 80
GREY = "#999999"
_STEPS = (1, 2, 5)


@dataclass(frozen=True)
class Line:
    """A point at infinity is drawn as a triangle at the top: more than can be told."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


class Scale(Protocol):
    """Where a value lies, from 0 to 1, and what is written beside the axis."""

    @property
    def ticks(self) -> Sequence[float]: ...

    def place(self, value: float) -> float: ...


class Linear:
    """From 0 to five round steps."""

    def __init__(self, most: float) -> None:
        step = _round_step(most)
        self._most = step * 5
        self.ticks: Sequence[float] = [number * step for number in range(6)]

    def place(self, value: float) -> float:
        return value / self._most


class Octaves:
    """Logarithmic, with each of the values written."""

    def __init__(self, values: Iterable[float]) -> None:
        self.ticks: Sequence[float] = sorted(set(values))
        self._first = log2(self.ticks[0])
        self._span = log2(self.ticks[-1]) - self._first or 1.0

    def place(self, value: float) -> float:
        return (log2(value) - self._first) / self._span


class Decades:
    """Logarithmic, from and to a power of ten."""

    def __init__(self, values: Iterable[float]) -> None:
        values = [value for value in values if isfinite(value)] or [1.0]
        self._first = floor(log10(min(values)))
        self._span = max(ceil(log10(max(values))) - self._first, 1)
        self.ticks: Sequence[float] = [10.0 ** (self._first + i) for i in range(self._span + 1)]

    def place(self, value: float) -> float:
        return (log10(value) - self._first) / self._span if isfinite(value) else 1.0


@dataclass(frozen=True)
class Frame:
    """A panel without its contents, one of a grid."""

    column: int
    row: int
    title: str
    x_name: str

    @property
    def left(self) -> int:
        return _LEFT + self.column * (_WIDTH + _GAP_X)

    @property
    def top(self) -> int:
        return _TOP + self.row * (_HEIGHT + _GAP_Y)

    @property
    def bottom(self) -> int:
        return self.top + _HEIGHT

    def draw(self, x: Scale, y: Scale) -> Iterable[str]:
        yield f'<text x="{self.left}" y="{self.top - 14}" font-weight="bold">{self.title}</text>'
        for value in y.ticks:
            at = self.bottom - y.place(value) * _HEIGHT
            yield f'<path d="M{self.left} {at:.1f}h{_WIDTH}" stroke="#e5e5e5"/>'
            yield write(self.left - 8, at + 4, f"{value:,g}", "end")
        for value in x.ticks:
            at = self.left + x.place(value) * _WIDTH
            yield write(at, self.bottom + 18, f"{value:g}", "middle")
        yield write(self.left + _WIDTH / 2, self.bottom + 36, self.x_name, "middle")


def draw_lines(frame: Frame, lines: Sequence[Line], x: Scale, y: Scale) -> Iterable[str]:
    """Each is named where it ends; one without points is left out."""
    yield from frame.draw(x, y)
    label_y = float("inf")
    drawn = [line for line in lines if line.points]
    for line in sorted(drawn, key=lambda line: line.points[-1][1]):
        points = [
            (frame.left + x.place(across) * _WIDTH, frame.bottom - y.place(up) * _HEIGHT)
            for across, up in line.points
        ]
        yield from _draw_line(line, points)
        label_y = min(points[-1][1], label_y - 14)  # no label upon another
        yield write(points[-1][0] + 8, label_y + 4, line.name, "start", line.colour)


def draw_bars(frame: Frame, bars: Sequence[tuple[str, float]], colour: str) -> Iterable[str]:
    """Side by side, each with its name below."""
    y = Linear(max(height for _, height in bars))
    yield from frame.draw(_Unmarked(), y)
    width = _WIDTH / len(bars)
    for place, (name, height) in enumerate(bars):
        left, high = frame.left + place * width, y.place(height) * _HEIGHT
        yield (
            f'<rect x="{left + 1:.1f}" y="{frame.bottom - high:.1f}" width="{width - 2:.1f}" '
            f'height="{high:.1f}" fill="{colour}"/>'
        )
        yield write(left + width / 2, frame.bottom + 18, name, "middle")


def picture(columns: int, rows: int, parts: Iterable[str]) -> str:
    width, height = _LEFT + columns * (_WIDTH + _GAP_X) - 30, _TOP + rows * (_HEIGHT + _GAP_Y) - 20
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">'
    )
    background = f'<rect width="{width}" height="{height}" fill="white"/>'
    return "\n".join([head, background, *parts, "</svg>"]) + "\n"


def write(x: float, y: float, text: str, anchor: str, colour: str = "#333333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


class _Unmarked:
    ticks: Sequence[float] = ()

    def place(self, value: float) -> float:
        return value


def _draw_line(line: Line, points: Sequence[tuple[float, float]]) -> Iterable[str]:
    told = [isfinite(up) for _, up in line.points]
    joined = [point for point, finite in zip(points, told, strict=True) if finite]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in joined)
    dash = ' stroke-dasharray="5 4"' if line.dashed else ""
    yield f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2"{dash}/>'
    for (x, y), finite in zip(points, told, strict=True):
        if not finite:
            yield f'<path d="M{x:.1f} {y - 5:.1f}l5 9h-10z" fill="{line.colour}"/>'
        elif not line.dashed:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{line.colour}"/>'


def _round_step(most: float) -> float:
    """Round, and five of it are no less."""
    power = 1e-6
    while True:
        for step in _STEPS:
            if step * power * 5 >= most:
                return step * power
        power *= 10
