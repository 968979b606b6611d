"""The command line of the bench."""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.client import Endpoint
from bench.gate import DEFAULT_REFERENCE
from bench.measure import Effort
from bench.suites import SUITES

_DESCRIPTION = (
    "Measure an OpenAI-compatible embeddings server. Without a suite: all. "
    "`peers --help`, `hop --help`, `scale --help`: suites that start what they measure. "
    "`gpu --help`: the engine on a GPU, without a server."
)


@dataclass(frozen=True)
class Options:
    suites: tuple[str, ...]
    endpoint: Endpoint
    model: str | None  # None: the only one that the server has
    sizes: tuple[int, ...]
    reference: Path | None  # None: nothing is checked
    effort: Effort
    seed: str
    json_path: Path | None


def parse(arguments: Sequence[str]) -> Options:
    """Exits with a message for a command line that cannot be."""
    given = _parser().parse_args(arguments)
    return Options(
        suites=tuple(dict.fromkeys(given.suites)) or tuple(SUITES),
        endpoint=Endpoint(given.url, given.api_key),
        model=given.model,
        sizes=given.sizes,
        reference=None if given.no_check else given.reference,
        effort=Effort(timed_s=given.seconds),
        # Fresh for each run, so that a server that caches by text has not seen these before.
        seed=given.seed or str(time.time_ns()),
        json_path=given.json,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=_DESCRIPTION)
    add = parser.add_argument
    add("suites", nargs="*", type=_suite, metavar="SUITE", help=", ".join(SUITES))
    add("--url", default="http://127.0.0.1:8000", help="of the server (%(default)s)")
    add("--api-key", help="sent as a bearer token")
    add("--model", help="its id; default: the only one that the server has")
    add("--sizes", type=_sizes, default=(16, 128, 256), help="tokens an input (16,128,256)")
    add("--seconds", type=float, default=5.0, help="timed for each case (%(default)s)")
    add("--seed", help="of the texts; default: a fresh one, which the results name")
    add(
        "--json",
        type=Path,
        metavar="OUT",
        help="write the results, and the tables beside it as .md",
    )
    check = parser.add_mutually_exclusive_group()
    check.add_argument(
        "--reference",
        type=Path,
        default=DEFAULT_REFERENCE,
        help="vectors that the server's must come near (those of all-MiniLM-L6-v2)",
    )
    check.add_argument("--no-check", action="store_true", help="time whatever the server answers")
    return parser


def _suite(name: str) -> str:
    # Not `choices`: argparse holds an empty list of positionals against them.
    if name not in SUITES:
        raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(SUITES)}")
    return name


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split(","))
