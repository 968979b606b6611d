"""`python -m bench cpu`."""

import argparse
import sys
from collections.abc import Sequence

from bench.cpu.measure import MIN_COSINE, CpuPlan, WrongVectors, measure_kernels
from bench.cpu.report import cpu_markdown
from bench.progress import exit_on, tell
from bench.results import keep, results_path
from checkpoint.errors import CheckpointError
from checkpoint.find import DEFAULT_MODEL
from engine.errors import EngineError

_DESCRIPTION = "The engine in process, by each kind of kernels in turns."


def main(arguments: Sequence[str]) -> None:
    given = _parser().parse_args(arguments)
    plan = CpuPlan(given.model, given.dtypes, given.kernels, given.rounds)
    with exit_on(CheckpointError, EngineError, WrongVectors):
        results = measure_kernels(plan, tell)
    report = cpu_markdown(results)
    keep(results, report, given.json)
    sys.stdout.write(report)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench cpu", description=_DESCRIPTION)
    add = parser.add_argument
    add("--model", default=DEFAULT_MODEL, metavar="DIR_OR_HUB_ID", help="(%(default)s)")
    add("--dtypes", nargs="+", choices=tuple(MIN_COSINE), default=["bfloat16", "float32"])
    add(
        "--kernels",
        nargs="+",
        choices=("cpu", "onednn", "plain"),
        default=["cpu", "plain", "onednn"],
        help="the last is what the others are compared with",
    )
    add("--rounds", type=int, default=9, help="(%(default)s)")
    add("--json", type=results_path, metavar="OUT", help="and OUT's .md")
    return parser
