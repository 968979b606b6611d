"""`python -m bench overhead`."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from bench.client import RequestFailed
from bench.fleet.processes import StartFailed
from bench.overhead.measure import OverheadEffort, measure_overhead
from bench.overhead.report import MOST_SHARE, overhead_markdown
from bench.progress import exit_on, tell
from bench.results import keep, results_path


def main(arguments: Sequence[str]) -> None:
    """Exits with 1 where it cannot be measured, and with 2 where more is added than may be."""
    given = _parser().parse_args(arguments)
    effort = OverheadEffort(given.rounds, given.turn, simulated=given.simulated)
    with exit_on(StartFailed, RequestFailed):
        results = asyncio.run(measure_overhead(effort, tell))
    report = overhead_markdown(results)
    sys.stdout.write(report)
    keep(results, report, given.json)
    if results.share >= MOST_SHARE:
        raise SystemExit(2)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench overhead",
        description="Measure what metrics, logs and traces that are off add to a request.",
    )
    parser.add_argument("--rounds", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--turn", type=int, default=25, help="requests (%(default)s)")
    parser.add_argument("--simulated", action="store_true", help="a device that only waits")
    parser.add_argument("--json", type=results_path, metavar="OUT", help="and OUT's .md")
    return parser
