"""`python -m bench overhead`."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.client import RequestFailed
from bench.fleet.processes import StartFailed
from bench.overhead.measure import OverheadEffort, OverheadResults, measure_overhead
from bench.overhead.report import MOST_SHARE, overhead_markdown
from bench.results import write


def main(arguments: Sequence[str]) -> None:
    """Exits with 1 where it cannot be measured, and with 2 where more is added than may be."""
    given = _parser().parse_args(arguments)
    progress = Console(stderr=True)
    effort = OverheadEffort(given.rounds, given.turn, simulated=given.simulated)
    try:
        results = asyncio.run(
            measure_overhead(effort, lambda doing: progress.print(doing, style="dim"))
        )
    except (StartFailed, RequestFailed) as error:
        progress.print(f"bench: {error}", style="red", markup=False)
        raise SystemExit(1) from None
    _keep(results, given.json)
    if results.share >= MOST_SHARE:
        raise SystemExit(2)


def _keep(results: OverheadResults, path: Path | None) -> None:
    report = overhead_markdown(results)
    sys.stdout.write(report)
    if path is not None:
        write(results, path)
        path.with_suffix(".md").write_text(report)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench overhead",
        description="Measure what metrics, logs and traces that are off add to a request.",
    )
    parser.add_argument("--rounds", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--turn", type=int, default=25, help="requests (%(default)s)")
    parser.add_argument("--simulated", action="store_true", help="a device that only waits")
    parser.add_argument("--json", type=Path, metavar="OUT", help="and OUT's .md")
    return parser
