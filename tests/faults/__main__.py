"""`python -m faults [words of a name] [--runs N] [--write FILE]`: every fault, several times."""

import argparse
import asyncio
import sys
import time
from pathlib import Path

from faults import network, processes, stores
from faults.fleet import Fleet, running_fleet
from faults.trial import Fault, Trial, run_trial
from load_driver import References

FAULTS = (*processes.FAULTS, *stores.FAULTS, *network.FAULTS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="faults")
    parser.add_argument("words", nargs="*", help="of the names of faults; none: all")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--write", type=Path, help="the page to write")
    arguments = parser.parse_args()
    faults = [fault for fault in FAULTS if all(word in fault.name for word in arguments.words)]
    trials = asyncio.run(_run(faults, arguments.runs))
    sys.exit(not all(trial.holds for trial in trials))


async def _run(faults: list[Fault], runs: int) -> list[Trial]:
    references = References()
    trials = []
    async with running_fleet() as fleet:
        for fault in faults:
            trials += await _run_one(fleet, fault, references, runs)
    return trials


async def _run_one(fleet: Fleet, fault: Fault, references: References, runs: int) -> list[Trial]:
    trials = []
    for _ in range(runs):
        began_s = time.monotonic()
        trial = await run_trial(fleet, fault, references)
        trials.append(trial)
        took_s = time.monotonic() - began_s
        print(
            f"{fault.name:40} {'ok ' if trial.holds else 'BAD'} requests {trial.verdict.requests}"
            f" in flight {trial.in_flight} recovery {trial.recovery_s:.2f} s {trial.counted}"
            f" refused {trial.refused} broken {trial.broken} took {took_s:.1f} s",
            flush=True,
        )
        if not trial.holds:
            print(trial.explain(), flush=True)
    return trials


if __name__ == "__main__":
    main()
