"""What a part of the run is: it yields rows of tables, as they are measured."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from bench.gpu.setup import Setup
from bench.gpu.shapes import ModelShape

Value = str | int | float | bool | None


@dataclass(frozen=True)
class Row:
    """One of the table of this title. `passes`, where it has one, is a check: False fails the run.

    Keys are columns, their units at their ends.
    """

    table: str
    values: dict[str, Value]


Rows = Generator[Row, None, None]


@dataclass(frozen=True)
class Part:
    """`sections` share the part's time, so that what takes long leaves some to what follows."""

    name: str
    title: str
    share: float  # of the run's time, beside those of the other parts
    sections: Callable[[Setup], Sequence[Rows]]


def by_model(measure: Callable[[Setup, ModelShape], Rows]) -> Callable[[Setup], Sequence[Rows]]:
    """A section for each model."""
    return lambda setup: [measure(setup, shape) for shape in setup.models]


def at_once(measure: Callable[[Setup], Rows]) -> Callable[[Setup], Sequence[Rows]]:
    return lambda setup: [measure(setup)]
