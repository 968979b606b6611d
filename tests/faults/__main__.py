"""`python -m faults [words of a name] [--runs N] [--write FILE]`: every fault, several times."""

import argparse
import asyncio
import sys
import time
from pathlib import Path

from faults import failover, network, processes, stores
from faults.fleet import Fleet, replicated_fleet, running_fleet, until
from faults.load import Pace
from faults.page import replace_section, table
from faults.trial import Fault, Trial, failed_trial, run_trial
from load_driver import References
from redis_keyspace import left_behind

_STREAM_OF_THE_DEAD_S = 65.0
ONE_REDIS = (*processes.FAULTS, *stores.FAULTS, *network.FAULTS)
REPLICATED = failover.FAULTS


def main() -> None:
    parser = argparse.ArgumentParser(prog="faults")
    parser.add_argument("words", nargs="*", help="of the names of faults; none: all")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--write", type=Path, help="the page to write")
    arguments = parser.parse_args()
    trials = asyncio.run(run(arguments.words, arguments.runs))
    text = table(trials, Pace())
    print(text)
    if arguments.write is not None:
        replace_section(arguments.write, "faults", text)
    sys.exit(not all(trial.holds for trial in trials))


async def run(words: list[str], runs: int) -> list[Trial]:
    references = References()
    trials = []
    for faults, running in ((ONE_REDIS, running_fleet), (REPLICATED, replicated_fleet)):
        chosen = [fault for fault in faults if all(word in fault.name for word in words)]
        if not chosen:
            continue
        try:
            async with running() as fleet:
                for fault in chosen:
                    trials += await run_one(fleet, fault, references, runs)
                await _until_nothing_is_left(fleet)
        except Exception as error:  # what was found until then is told all the same
            trials.append(failed_trial("the fleet, at its start or end", error))
            print(trials[-1].explain(), flush=True)
    return trials


async def run_one(fleet: Fleet, fault: Fault, references: References, runs: int) -> list[Trial]:
    trials = []
    for _ in range(runs):
        began_s = time.monotonic()
        try:
            trial = await run_trial(fleet, fault, references)
        except Exception as error:  # one run that failed must not lose the others
            trial = failed_trial(fault.name, error)
            fleet.supervised = True
        trials.append(trial)
        took_s = time.monotonic() - began_s
        print(
            f"{fault.name:40} {'ok ' if trial.holds else 'BAD'} requests {trial.verdict.requests}"
            f" in flight {trial.in_flight} recovery {trial.recovery_s:.2f} s took {took_s:.1f} s"
            f" { ({name: count for name, count in trial.counted.items() if count}) }",
            flush=True,
        )
        if not trial.holds:
            print(trial.explain(), flush=True)
    return trials


async def _until_nothing_is_left(fleet: Fleet) -> None:
    """Of dead gateways neither. Raises TimeoutError."""
    letters = "florilege:dlq:"
    await until(
        lambda: all(line.startswith(letters) for line in left_behind(fleet.redis)),
        _STREAM_OF_THE_DEAD_S,
    )


if __name__ == "__main__":
    main()
