"""What a run gave, as it stands in the JSON file. A change of meaning raises `SCHEMA`."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from bench.machine import Machine
from bench.statistics import Latency

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SCHEMA = 1


@dataclass(frozen=True)
class Check:
    """How near the server's vectors came to the reference before anything was timed."""

    reference: str  # the model and the library that made it
    texts: int
    min_cosine: float


@dataclass(frozen=True)
class Row:
    """One case of one suite."""

    suite: str
    clients: int
    inputs: int  # per request
    tokens: int  # per input
    requests: int  # timed
    tokens_per_request: float  # as the server counted them
    wall_s: float
    latency: Latency
    inputs_per_s: float
    tokens_per_s: float


@dataclass(frozen=True)
class Results:
    """`check` is None when the run was told not to check: its figures may be of wrong vectors."""

    date: str  # ISO 8601, UTC
    seed: str
    url: str
    model: str
    server: dict[str, Any]  # what /v1/models says of the model
    machine: Machine  # of the load; the server's too where it is the same
    check: Check | None
    rows: list[Row] = field(default_factory=list)
    schema: int = SCHEMA


def keep(results: "DataclassInstance", page: str, path: Path | None) -> None:
    """Write the results where a path is given, and their tables beside them."""
    if path is not None:
        write(results, path)
        path.with_suffix(".md").write_text(page)


def write(results: "DataclassInstance", path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    option = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
    path.write_bytes(orjson.dumps(dataclasses.asdict(results), option=option))
