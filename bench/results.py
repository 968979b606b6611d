"""What a run gave, as it stands in the JSON file. A change of meaning raises `SCHEMA`."""

import argparse
import dataclasses
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from bench.machine import Machine
from bench.statistics import Latency, Tail
from bench.texts import Size

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SCHEMA = 2  # 1: tokens were numbers alone, and all loops closed


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
    tokens: Size  # per input
    requests: int  # timed
    tokens_per_request: float  # as the server counted them
    wall_s: float
    latency: Latency
    inputs_per_s: float
    tokens_per_s: float


@dataclass(frozen=True)
class LoadRow:
    """One rate of arrivals. Each arrival was answered, refused, failed, or never finished."""

    inputs: int  # per request
    tokens: Size  # per input
    rate: float  # requests a second that were to arrive
    share: float | None  # of the peak of a closed loop; None where that was not measured
    seconds: float  # that count
    arrivals: int
    answered: int
    refused: int  # 429 and 503
    failed: int
    unfinished: int  # given up after `drain_s`
    drain_s: float
    requests_per_s: float  # answered within the seconds
    inputs_per_s: float
    tokens_per_s: float
    latency: Tail  # of those answered and those unfinished, from when each was due
    most_in_flight: int
    late_p99_ms: float  # what the client itself was late to send
    reasons: dict[str, int]  # of refusals and failures


@dataclass(frozen=True)
class Batches:
    """What the server's own metrics say of the batches of one suite, its warm-up included."""

    suite: str
    count: int
    tokens: float  # of all of them, padding included
    by_tokens: dict[int, int]  # batches of at most so many tokens, and more than of the next fewer
    by_sequences: dict[int, int]


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
    loads: list[LoadRow] = field(default_factory=list)
    batches: list[Batches] = field(default_factory=list)
    inputs: str = ""  # what was sent, where it is not texts of the bench's own
    ended: str = ""  # why it ended before all was measured
    schema: int = SCHEMA


def results_path(text: str) -> Path:
    """Of --json. Raises ArgumentTypeError before anything is measured that could not be kept."""
    path = Path(text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from error
    if path.suffix == ".md":
        raise argparse.ArgumentTypeError(f"{text}: the tables get this name")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} cannot be written")
    return path


def keep(results: "DataclassInstance", page: str, path: Path | None) -> None:
    """Write the results where a path is given, and their tables beside them."""
    if path is not None:
        write(results, path)
        path.with_suffix(".md").write_text(page)


def unless_ended(path: Path | None, ended: str) -> Path | None:
    """Beside it where not all was measured: what is there may be a whole run."""
    return path if path is None or not ended else path.with_stem(f"{path.stem}-partial")


def write(results: "DataclassInstance", path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    option = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
    path.write_bytes(orjson.dumps(dataclasses.asdict(results), option=option))
