"""`python -m bench check`."""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import uvloop
from pydantic import TypeAdapter, ValidationError

from bench.check.measure import CheckEffort, measure_ratios
from bench.check.ratios import Committed, Measured, compare, settle
from bench.check.report import QUIET_CORES, check_page, committed_page
from bench.client import RequestFailed
from bench.cpu.measure import WrongVectors
from bench.fleet.processes import StartFailed
from bench.machine import Machine, describe_machine
from bench.progress import exit_on, tell
from bench.results import keep
from checkpoint.errors import CheckpointError
from engine.errors import EngineError

COMMITTED = Path(__file__).parents[1] / "results" / "check" / "check.json"
_DESCRIPTION = (
    "Measure a handful of ratios side by side, and compare them with the committed ones. Exits "
    "with 0 where all hold, with 2 where one has fallen, is missing or was never committed, with "
    "3 where those that could be measured hold, and with 1 where nothing could be measured."
)
_FELL, _SKIPPED = 2, 3


class NothingCommitted(Exception):
    """There is no file to compare with, or it is of another kind."""


class NotQuiet(Exception):
    """Figures of such a run are not worth to be kept."""


def main(arguments: Sequence[str]) -> None:
    given = _parser().parse_args(arguments)
    failures = (WrongVectors, StartFailed, RequestFailed, EngineError, CheckpointError)
    with exit_on(NothingCommitted, NotQuiet, *failures):
        if given.update:
            sys.stdout.write(_update(given.committed, given.runs))
            return
        committed = _read(given.committed)
        measured = _measure()
    verdicts = compare(committed.ratios, measured)
    sys.stdout.write(check_page(committed, measured, verdicts))
    if any(verdict.fails for verdict in verdicts):
        raise SystemExit(_FELL)
    if any(verdict.state == "skipped" for verdict in verdicts):
        raise SystemExit(_SKIPPED)


def _read(path: Path) -> Committed:
    try:
        return TypeAdapter(Committed).validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise NothingCommitted(f"{path}: {error}; --update writes it") from error


def _measure() -> Measured:
    return uvloop.run(measure_ratios(CheckEffort(), tell))


def _update(path: Path, runs: int) -> str:
    """Measure everything so many times; write what is to be held. Raises NotQuiet."""
    machine, done = describe_machine(), []
    for number in range(runs):
        tell(f"check: run {number + 1} of {runs}")
        done.append(_measure())
        if done[-1].others_cores > QUIET_CORES:
            cores = f"{done[-1].others_cores:.2f} cores"
            raise NotQuiet(f"other work took {cores}: nothing is written")
        if done[-1].skipped:
            names = ", ".join(done[-1].skipped)
            raise NothingCommitted(f"not all can be measured here: {names}")
    committed = settled(machine, done)
    keep(committed, report := committed_page(committed), path)
    return report


def settled(machine: Machine, runs: Sequence[Measured]) -> Committed:
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return Committed(date, machine, settle(runs), max(run.others_cores for run in runs))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench check", description=_DESCRIPTION)
    add = parser.add_argument
    add("--committed", type=Path, default=COMMITTED, help="(bench/results/check/check.json)")
    add("--update", action="store_true", help="measure several times, and write that file")
    add("--runs", type=int, default=5, help="of --update (%(default)s)")
    return parser
