"""`python -m bench` against a server."""

from collections.abc import Sequence

import uvloop
from rich.console import Console

from bench.client import RequestFailed
from bench.gate import CheckFailed
from bench.options import parse
from bench.progress import exit_on, tell
from bench.report import markdown, print_report
from bench.results import keep
from bench.run import run


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    with exit_on(CheckFailed, RequestFailed):
        results = uvloop.run(run(options, tell))
    print_report(results, Console())
    keep(results, markdown(results), options.json_path)
