"""`python -m bench hop` and `python -m bench scale`."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import uvloop

from bench.client import RequestFailed
from bench.fleet.hop import HopEffort, measure_hop
from bench.fleet.plot import scale_svg
from bench.fleet.processes import StartFailed
from bench.fleet.report import hop_markdown, scale_markdown
from bench.fleet.scale import ScaleEffort, measure_scale
from bench.progress import exit_on, tell
from bench.results import keep, results_path

_DESCRIPTION = "Measure what the suite starts itself: redis-server, gateway, simulated workers."


def main(arguments: Sequence[str]) -> None:
    with exit_on(StartFailed, RequestFailed):
        report = uvloop.run(run_fleet(arguments, tell))
    sys.stdout.write(report)


async def run_fleet(arguments: Sequence[str], tell: Callable[[str], None]) -> str:
    """The report. Raises StartFailed and RequestFailed."""
    given = _parser().parse_args(arguments)
    json_path: Path | None = given.json
    if given.suite == "hop":
        hop = await measure_hop(HopEffort(given.rounds, given.turn, given.pause_s), tell)
        report = hop_markdown(hop)
        keep(hop, report, json_path)
    else:
        scale = await measure_scale(_scale_effort(given), tell)
        plot = Path("scale.svg") if json_path is None else json_path.with_suffix(".svg")
        report = scale_markdown(scale, plot.name)
        keep(scale, report, json_path)
        if json_path is not None:
            plot.write_text(scale_svg(scale))
    return report


def _scale_effort(given: argparse.Namespace) -> ScaleEffort:
    return ScaleEffort(
        workers=given.workers,
        device_tokens_per_s=given.device_tokens_per_s,
        seconds=given.seconds,
        gateways=given.gateways,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=_DESCRIPTION)
    suites = parser.add_subparsers(dest="suite", required=True)
    hop = suites.add_parser("hop", help="what Redis adds to a job, and to a request")
    hop.add_argument("--rounds", type=int, default=60, help="interleaved (%(default)s)")
    hop.add_argument("--turn", type=int, default=40, help="of each way in a round (%(default)s)")
    hop.add_argument("--pause-s", type=float, default=0.0, help="before each (%(default)s)")
    scale = suites.add_parser("scale", help="one gateway process or some, more and more workers")
    scale.add_argument("--gateways", type=int, default=1, help="on one port (%(default)s)")
    scale.add_argument("--workers", type=_counts, default=(1, 2, 4, 8), help="(1,2,4,8)")
    scale.add_argument("--seconds", type=float, default=8.0, help="each row (%(default)s)")
    scale.add_argument("--device-tokens-per-s", type=float, default=50_000.0, help="(%(default)s)")
    for suite in (hop, scale):
        suite.add_argument(
            "--json", type=results_path, metavar="OUT", help="and OUT's .md, and plot"
        )
    return parser


def _counts(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(count) for count in text.split(",")))
