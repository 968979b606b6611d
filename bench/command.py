"""`python -m bench` against a server."""

from collections.abc import Sequence

import uvloop
from rich.console import Console

from bench.client import RequestFailed
from bench.gate import CheckFailed
from bench.options import parse
from bench.peers.environment import PeersMissing
from bench.peers.process import PeerFailed
from bench.report import markdown, print_report
from bench.results import write
from bench.run import run


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
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
