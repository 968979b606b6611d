"""`python -m bench peers`."""

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from bench.client import RequestFailed
from bench.fleet.cpu import OTHERS, CpuMeter
from bench.fleet.processes import StartFailed
from bench.gate import CheckFailed, read_reference
from bench.machine import describe_machine
from bench.peers.compare import FAILURES, Field, Plan, Tell, measure_fresh, measure_load, started
from bench.peers.environment import NAMES
from bench.peers.loads import FRESH, FRESH_ABOUT, LOADS, PromptedTexts
from bench.peers.models import MODELS, Model, PeersMissing
from bench.peers.plot import peers_svg
from bench.peers.process import PeerFailed
from bench.peers.report import peers_markdown
from bench.peers.results import LoadRow, PeersResults
from bench.peers.roster import Entrant, entrants
from bench.peers.targets import outcomes
from bench.peers.witness import Witness
from bench.progress import exit_if, exit_on, kept, tell
from bench.results import keep, results_path, unless_ended

_DESCRIPTION = (
    "Measure the engine, the server and the server over Redis beside other libraries and servers, "
    "all started here. First: python -m bench.peers.environment."
)
_REFERENCES = Path(__file__).parents[1] / "reference"
_LOAD_NAMES = (*LOADS, FRESH)
_FRESH_ROUNDS = 5  # at most: every one starts its engines anew
_IDLE_S = 2.0


@dataclass(frozen=True)
class PeersOptions:
    model: Model
    loads: tuple[str, ...]
    rounds: int
    peers: tuple[str, ...] | None  # environments; None: all
    seed: str
    json_path: Path | None


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    with exit_on(CheckFailed, RequestFailed, PeersMissing, PeerFailed, StartFailed):
        if not options.model.directory.exists():
            raise PeersMissing(f"no {options.model.directory}: python -m bench.peers.environment")
        taking = entrants(options.model, options.peers)
        results = uvloop.run(_until_terminated(measure_peers(options, taking, tell)))
    path = unless_ended(options.json_path, results.ended)
    plot = Path("peers.svg") if path is None else path.with_suffix(".svg")
    report = peers_markdown(results, plot.name)
    keep(results, report, path)
    if path is not None:
        plot.write_text(peers_svg(results))
    sys.stdout.write(report)
    exit_if(results.ended)


async def _until_terminated(measuring: Coroutine[None, None, PeersResults]) -> PeersResults:
    """What sleeps does not end with its parent: everything is ended on SIGTERM as on SIGINT."""
    task = asyncio.ensure_future(measuring)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None


def parse(arguments: Sequence[str]) -> PeersOptions:
    """Exits with a message for a command line that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m bench peers", description=_DESCRIPTION)
    add = parser.add_argument
    add("--model", choices=tuple(MODELS), default="minilm", help="(%(default)s)")
    add("--loads", type=_loads, default=_LOAD_NAMES, help=f"({','.join(_LOAD_NAMES)})")
    add("--rounds", type=int, default=7, help="interleaved (%(default)s)")
    add("--peers", type=_names, help=f"environments, by comma; default: {','.join(NAMES)}")
    add("--seed", help="of the texts; default: a fresh one, which the results name")
    add("--json", type=results_path, metavar="OUT", help="and OUT's .md and .svg")
    given = parser.parse_args(arguments)
    return PeersOptions(
        model=MODELS[given.model],
        loads=given.loads,
        rounds=given.rounds,
        peers=given.peers,
        seed=given.seed or str(time.time_ns()),
        json_path=given.json,
    )


async def measure_peers(
    options: PeersOptions, taking: Sequence[Entrant], tell: Tell
) -> PeersResults:
    """What was measured; a peer that fails is named in `missing`, what ends a run in `ended`.

    Raises what ends one of ours, or Ctrl-C, where no load was measured whole.
    """
    machine, date = describe_machine(), datetime.now(UTC).isoformat(timespec="seconds")
    texts = PromptedTexts(options.seed, options.model)
    reference = read_reference(_REFERENCES / options.model.reference)
    witness = Witness()
    plan = Plan(options.model, texts, options.seed, options.rounds, reference, tell, witness)
    rows: list[LoadRow] = []

    async def measure_loads(field: Field) -> None:
        for name in options.loads:
            if name != FRESH:
                rows.extend(await measure_load(LOADS[name], field, plan))

    async def measure_first_lengths(field: Field) -> None:
        fresh = [entrant for entrant in taking if entrant.fresh]
        rounds = min(options.rounds, _FRESH_ROUNDS)
        rows.extend(await measure_fresh(fresh, field, plan, rounds))

    async with started(taking, plan) as field:
        idle_cores = await _idle_cores()
        ended = await kept(measure_loads(field), lambda: rows, *FAILURES)
    if FRESH in options.loads and not ended:
        ended = await kept(measure_first_lengths(field), lambda: rows, *FAILURES)
    loads = tuple(name for name in options.loads if any(row.load == name for row in rows))
    return PeersResults(
        date=date,
        seed=options.seed,
        machine=machine,
        model=options.model.name,
        rounds=options.rounds,
        idle_cores=idle_cores,
        contenders=field.rows,
        loads=_about(loads),
        rows=rows,
        targets=outcomes(options.model, rows, loads),
        missing=field.missing,
        ended=ended,
        turns=witness.turns,
    )


async def _idle_cores() -> float:
    """What the machine does while every contender waits for its turn: theirs, and others' work."""
    meter = CpuMeter({})
    await asyncio.sleep(_IDLE_S)
    return meter.cores()[OTHERS]


def _about(loads: Sequence[str]) -> dict[str, str]:
    about = {name: LOADS[name].about for name in loads if name in LOADS}
    return about | (FRESH_ABOUT if FRESH in loads else {})


def _loads(text: str) -> tuple[str, ...]:
    return _chosen(text, _LOAD_NAMES)


def _names(text: str) -> tuple[str, ...]:
    return _chosen(text, NAMES)


def _chosen(text: str, known: Sequence[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(known)}")
    return names
