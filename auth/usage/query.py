"""A question about usage, and a line of its answer."""

from dataclasses import dataclass
from typing import Literal, get_args

Dimension = Literal["day", "key", "project", "model", "kind"]
DIMENSIONS: tuple[str, ...] = get_args(Dimension)


@dataclass(frozen=True, kw_only=True)
class UsageQuery:
    """Counts, added up over all that `by` does not name. Filters: None takes everything."""

    by: tuple[Dimension, ...] = ()
    since: int | None = None  # the first day, 20261129
    until: int | None = None  # the day after the last
    keys: frozenset[str] | None = None
    projects: frozenset[str] | None = None
    models: frozenset[str] | None = None
    kind: str | None = None


@dataclass(frozen=True, kw_only=True)
class UsageTotal:
    """What is not asked for `by` is None. `key` and `project` are '' for anonymous and for none."""

    day: int | None = None
    key: str | None = None
    project: str | None = None
    model: str | None = None
    kind: str | None = None
    requests: int
    tokens: int
