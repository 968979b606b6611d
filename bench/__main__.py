"""python -m bench"""

import sys

import uvloop
from rich.console import Console

from bench.client import RequestFailed
from bench.fleet.command import FLEET_SUITES, run_fleet
from bench.fleet.processes import StartFailed
from bench.gate import CheckFailed
from bench.options import parse
from bench.peers.environment import PeersMissing
from bench.peers.process import PeerFailed
from bench.report import markdown, print_report
from bench.results import write
from bench.run import run


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in FLEET_SUITES:
        _run_fleet()
        return
    options = parse(sys.argv[1:])
    progress = Console(stderr=True)
    try:
        results = uvloop.run(run(options, lambda doing: progress.print(doing, style="dim")))
    except (CheckFailed, RequestFailed, PeersMissing, PeerFailed) as error:
        progress.print(f"bench: {error}", style="red", markup=False)
        raise SystemExit(1) from None
    print_report(results, Console())
    if options.json_path is not None:
        write(results, options.json_path)
        options.json_path.with_suffix(".md").write_text(markdown(results))


def _run_fleet() -> None:
    progress = Console(stderr=True)
    try:
        report = uvloop.run(
            run_fleet(sys.argv[1:], lambda doing: progress.print(doing, style="dim"))
        )
    except (StartFailed, RequestFailed) as error:
        progress.print(f"bench: {error}", style="red", markup=False)
        raise SystemExit(1) from None
    sys.stdout.write(report)


if __name__ == "__main__":
    main()
