"""`python -m bench gateway`."""

import argparse
import sys
from collections.abc import Sequence

import uvloop

from bench.client import RequestFailed
from bench.fleet.processes import StartFailed
from bench.gateway.measure import GatewayEffort, measure_gateway
from bench.gateway.report import gateway_markdown
from bench.progress import exit_on, tell
from bench.results import keep, results_path


def main(arguments: Sequence[str]) -> None:
    given = _parser().parse_args(arguments)
    effort = GatewayEffort(given.rounds, devices=given.devices)
    with exit_on(StartFailed, RequestFailed):
        results = uvloop.run(measure_gateway(effort, tell))
    report = gateway_markdown(results)
    sys.stdout.write(report)
    keep(results, report, given.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench gateway",
        description="Measure where a request's time goes, from the socket to the engine and back.",
    )
    parser.add_argument("--rounds", type=int, default=40, help="(%(default)s)")
    parser.add_argument(
        "--devices",
        type=lambda text: tuple(text.split(",")),
        default=("real", "simulated"),
        help="(real,simulated)",
    )
    parser.add_argument("--json", type=results_path, metavar="OUT", help="and OUT's .md")
    return parser
