"""The command line of the suites that measure a server."""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.client import Endpoint
from bench.gate import DEFAULT_REFERENCE
from bench.measure import Effort
from bench.open_loop import Bounds
from bench.results import results_path
from bench.suites import SUITES, load, scoring
from bench.suites.load import DEFAULT_RATES, MOST_ARRIVALS, LoadPlan, Rate
from bench.texts import Size

NAMES = (*SUITES, load.NAME)
DEFAULT_SUITES = ("latency", "scoring", "throughput", "concurrency")

# All requests of a case are prepared before it is timed, and their texts made.
_MOST_SHARE = 10.0
_MOST = 1_000_000  # inputs a request, tokens an input
_MOST_S = 3_600.0

_DESCRIPTION = (
    f"Measure an OpenAI-compatible embeddings server. Without a suite: {', '.join(DEFAULT_SUITES)}."
    " `peers --help`, `hop --help`, `scale --help`: suites that start what they measure. "
    "`gpu --help`: the engine on a GPU, without a server. `check --help`: the regression gate."
)


@dataclass(frozen=True)
class InputOptions:
    kind: Literal["text", "tokens"]
    tokenizer: Path | None  # None: the packaged model's, where that is what is measured
    corpus: Path | None
    truncate: bool
    max_tokens: int | None  # None: what the server says


@dataclass(frozen=True)
class Options:
    suites: tuple[str, ...]
    endpoint: Endpoint
    model: str | None  # None: the only one that the server has
    sizes: tuple[Size, ...] | None  # None: each suite's own
    inputs: InputOptions
    reference: Path | None  # None: nothing is checked
    effort: Effort
    load: LoadPlan
    metrics_urls: tuple[str, ...]  # none: the admin port of the server's host, if it answers
    seed: str
    json_path: Path | None


def parse(arguments: Sequence[str]) -> Options:
    """Exits with a message for a command line that cannot be."""
    parser = _parser()
    given = parser.parse_args(arguments)
    tokens = given.input == "tokens"
    if tokens and scoring.SUITE.name in given.suites:
        parser.error("scoring takes texts: no API of reranking has token arrays")
    if given.corpus is None and "corpus" in (given.sizes or ()):
        parser.error("--sizes corpus needs --corpus FILE")
    seconds = {} if given.seconds is None else {"seconds": given.seconds}
    plan = LoadPlan(
        rates=given.rates,
        inputs=given.inputs,
        bounds=Bounds(given.max_in_flight, given.drain_s),
        # Fresh for each run, so that a server that caches by text has not seen these before.
        seed=given.seed or str(time.time_ns()),
        **seconds,
    )
    if max(rate.per_s(0.0) for rate in plan.rates) * plan.seconds > MOST_ARRIVALS:
        parser.error(f"--rates: more than {MOST_ARRIVALS:,} arrivals in {plan.seconds:g} s")
    default = tuple(s for s in DEFAULT_SUITES if not (tokens and s == scoring.SUITE.name))
    return Options(
        suites=tuple(dict.fromkeys(given.suites)) or default,
        endpoint=Endpoint(given.url, given.api_key),
        model=given.model,
        sizes=given.sizes or (("corpus",) if given.corpus else None),
        inputs=InputOptions(
            given.input, given.tokenizer, given.corpus, given.truncate, given.max_tokens
        ),
        reference=None if given.no_check else given.reference,
        effort=Effort() if given.seconds is None else Effort(timed_s=given.seconds),
        load=plan,
        metrics_urls=tuple(given.metrics_url),
        seed=plan.seed,
        json_path=given.json,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=_DESCRIPTION)
    add = parser.add_argument
    add("suites", nargs="*", type=_suite, metavar="SUITE", help=", ".join(NAMES))
    add("--url", default="http://127.0.0.1:8000", help="of the server (%(default)s)")
    add("--api-key", help="sent as a bearer token")
    add("--model", help="its id; default: the only one that the server has")
    add("--seconds", type=_seconds, help="timed for each case (5; each rate of load: 10)")
    add("--seed", help="of the texts and arrivals; default: a fresh one, which the results name")
    add("--json", type=results_path, metavar="OUT", help="and OUT's .md, and plots beside")
    add(
        "--metrics-url",
        action="append",
        default=[],
        help="of the server's metrics, or of each worker's, for the sizes of its batches; "
        "default: port 8001 of its host, if florilege answers there",
    )
    _add_inputs(parser.add_argument_group("what is sent"))
    _add_check(parser.add_mutually_exclusive_group())
    _add_load(parser.add_argument_group("load", "open loop: arrivals wait for no answer"))
    return parser


def _add_inputs(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--sizes",
        type=_sizes,
        help="tokens an input, or `mixed`; by default those of each suite up to the model's limit",
    )
    add("--max-tokens", type=_count, help="the model's limit, where /v1/models does not tell it")
    add("--input", choices=("text", "tokens"), default="text", help="(%(default)s)")
    add(
        "--tokenizer",
        type=Path,
        metavar="FILE",
        help="the model's tokenizer.json, for --input tokens; default: the packaged model's",
    )
    add("--corpus", type=Path, metavar="FILE", help="your own texts, one a line, in random order")
    add("--truncate", action="store_true", help="ask the server to cut inputs above its limit")


def _add_check(group: argparse._MutuallyExclusiveGroup) -> None:
    group.add_argument(
        "--reference",
        type=_file,
        default=DEFAULT_REFERENCE,
        help="vectors that the server's must come near (those of all-MiniLM-L6-v2)",
    )
    group.add_argument("--no-check", action="store_true", help="time whatever the server answers")


def _add_load(group: argparse._ArgumentGroup) -> None:
    add, bounds = group.add_argument, Bounds()
    percents = ",".join(f"{rate.value:.0%}" for rate in DEFAULT_RATES)
    add(
        "--rates",
        type=_rates,
        default=DEFAULT_RATES,
        help=f"requests/s, or shares of the closed loop's peak ({percents.replace('%', '%%')})",
    )
    add("--inputs", type=_count, default=1, help="texts a request (%(default)s)")
    add(
        "--max-in-flight",
        type=_count,
        default=bounds.in_flight,
        help="later arrivals wait, and their time counts (%(default)s)",
    )
    add(
        "--drain-s",
        type=_seconds,
        default=bounds.drain_s,
        help="after the last arrival; what is not answered then is unfinished (%(default)s)",
    )


def _count(text: str) -> int:
    # Digits beyond these Python would not read as a number.
    if not text.isdecimal() or len(text) > len(str(_MOST)) or not 0 < int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {_MOST:,}")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def _seconds(text: str) -> float:
    if (value := _positive(text)) > _MOST_S:
        raise argparse.ArgumentTypeError(f"{text!r}: {_MOST_S:,.0f} seconds at most")
    return value


def _file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{text} is no file")
    return path


def _suite(name: str) -> str:
    # Not `choices`: argparse holds an empty list of positionals against them.
    if name not in NAMES:
        raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(NAMES)}")
    return name


def _sizes(text: str) -> tuple[Size, ...]:
    return tuple(_size(size) for size in text.split(","))


def _size(text: str) -> Size:
    names: tuple[Literal["mixed", "corpus"], ...] = ("mixed", "corpus")
    for name in names:
        if text == name:
            return name
    try:
        return _count(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error} of tokens, nor `mixed`") from None


def _rates(text: str) -> tuple[Rate, ...]:
    rates = []
    for rate in text.split(","):
        number, percent, _ = rate.partition("%")
        try:
            value = _positive(number)
        except argparse.ArgumentTypeError:
            raise argparse.ArgumentTypeError(
                f"{rate!r} is neither requests/s nor a share such as 50%"
            ) from None
        if percent and value > 100 * _MOST_SHARE:
            raise argparse.ArgumentTypeError(f"{rate!r} is more than {_MOST_SHARE:.0%} of the peak")
        rates.append(Rate(value / 100, True) if percent else Rate(value))
    return tuple(rates)
