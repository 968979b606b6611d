"""`python -m bench` against a server."""

from collections.abc import Sequence

import uvloop
from rich.console import Console

from bench.client import RequestFailed
from bench.gate import CheckFailed
from bench.inputs import InputsUnreadable
from bench.options import parse
from bench.plots import plots
from bench.progress import Bar, exit_if, exit_on
from bench.report import markdown, print_report
from bench.results import keep, unless_ended
from bench.run import run


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    with exit_on(CheckFailed, RequestFailed, InputsUnreadable), Bar() as bar:
        results = uvloop.run(run(options, bar))
    print_report(results, Console())
    drawn = plots(results)
    path = unless_ended(options.json_path, results.ended)
    stem = "" if path is None else path.stem
    files = {name: f"{stem}-{name}.svg" for name in drawn}
    keep(results, markdown(results, files), path)
    if path is not None:
        for name, svg in drawn.items():
            path.with_name(files[name]).write_text(svg)
    exit_if(results.ended)
