"""`python -m bench quotas`."""

import argparse
import sys
from collections.abc import Sequence

import uvloop

from bench.client import RequestFailed
from bench.fleet.processes import StartFailed
from bench.progress import exit_on, tell
from bench.quotas.measure import QuotaEffort, measure_quotas
from bench.quotas.report import quotas_markdown
from bench.results import keep, results_path

_DESCRIPTION = "Keys at many times their limits, over two gateways that the suite starts itself."


def main(arguments: Sequence[str]) -> None:
    given = _parser().parse_args(arguments)
    effort = QuotaEffort(flood_s=given.seconds, rest_s=given.rest_s, rounds=given.rounds)
    with exit_on(StartFailed, RequestFailed):
        results = uvloop.run(measure_quotas(effort, tell))
    report = quotas_markdown(results)
    keep(results, report, given.json)
    sys.stdout.write(report)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench quotas", description=_DESCRIPTION)
    parser.add_argument("--seconds", type=float, default=120.0, help="of the flood (%(default)s)")
    parser.add_argument("--rest-s", type=float, default=30.0, help="beside it (%(default)s)")
    parser.add_argument("--rounds", type=int, default=300, help="of the costs (%(default)s)")
    parser.add_argument("--json", type=results_path, metavar="OUT", help="and OUT's .md")
    return parser
