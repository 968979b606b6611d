"""Deliveries whose worker died, and those of our own that we never heard of."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from transport.redis.entries import Given
from transport.redis.keys import GROUP, LANES, model_keys
from transport.redis.line import Argument, Line

_SCAN = 100  # pending entries looked at in one lane


class _Pending(NamedTuple):
    id: str
    deliveries: int


class Claimant(NamedTuple):
    """Who claims, where, and what it has: the ids of its entries."""

    line: Line
    model: str
    worker: str
    held: Collection[str]


async def claim_silent(claimant: Claimant, lease_ms: int, most: int) -> list[Given]:
    """Up to `most` entries that nobody renewed for a lease, online first.

    Our own are not among them: when the whole process stood still, they still run.

    XCLAIM looks at the idle time once more: of several workers that claim, one has it, without a
    lock. XPENDING tells how often a job was delivered, which XAUTOCLAIM does not. A claim leaves
    that count as it is: see `count_attempt`.
    Raises what `Line.execute` raises.
    """
    claimed: list[Given] = []
    line, model, worker, held = claimant
    for lane, queue in zip(LANES, model_keys(model).queues, strict=True):
        rows = await line.execute("XPENDING", queue, GROUP, "IDLE", lease_ms, "-", "+", _SCAN)
        silent = [one for one in map(_parse, rows) if one.id not in held]
        pending = silent[: most - len(claimed)]
        commands: list[tuple[Argument, ...]] = [
            # One that was handed back, with 0, is received for the first time, which counts.
            (
                *("XCLAIM", queue, GROUP, worker, lease_ms, one.id),
                *("RETRYCOUNT", max(1, one.deliveries)),
            )
            for one in pending
        ]
        for one, entries in zip(pending, await line.execute_all(commands), strict=True):
            if isinstance(entries, ResponseError):
                raise entries
            claimed += [Given(lane, raw, one.deliveries + 1) for raw in entries if raw]
    return claimed


async def count_attempt(line: Line, queue: str, worker: str, entry_id: str, attempt: int) -> bool:
    """Note that an attempt begins. False: the entry is gone.

    Whoever claims entries may die by the first of them. The others were never run, so that a claim
    alone is not counted: else some would be given up beside the one that kills.
    Raises what `Line.execute` raises.
    """
    kept = await line.execute(
        "XCLAIM", queue, GROUP, worker, 0, entry_id, "RETRYCOUNT", attempt, "JUSTID"
    )
    return bool(kept)


async def recover_own(claimant: Claimant) -> list[Given]:
    """Entries delivered to us in an answer that was lost.

    They are no new deliveries: the count stays. Raises what `Line.execute` raises.
    """
    recovered: list[Given] = []
    line, model, worker, held = claimant
    for lane, queue in zip(LANES, model_keys(model).queues, strict=True):
        rows = await line.execute("XPENDING", queue, GROUP, "-", "+", 10 * _SCAN, worker)
        for pending in map(_parse, rows):
            if pending.id in held:
                continue
            entries = await line.execute(
                *("XCLAIM", queue, GROUP, worker, 0, pending.id),
                *("RETRYCOUNT", pending.deliveries),
            )
            recovered += [Given(lane, raw, pending.deliveries) for raw in entries if raw]
    return recovered


async def renew(line: Line, queue: str, worker: str, ids: Sequence[str]) -> set[str]:
    """Which of these are still to be answered; their leases begin anew.

    An entry that was answered, cancelled or forgotten is not there, and XCLAIM leaves it out.
    Raises what `Line.execute` raises.
    """
    kept = await line.execute("XCLAIM", queue, GROUP, worker, 0, *ids, "JUSTID")
    return {entry_id.decode() for entry_id in kept}


async def give_back(line: Line, queue: str, worker: str, entry_id: str, attempt: int) -> None:
    """Let any other worker claim an entry at once, as though we had never had it.

    Raises what `Line.execute` raises.
    """
    a_day_ms = 86_400_000
    await line.execute(
        *("XCLAIM", queue, GROUP, worker, 0, entry_id),
        *("IDLE", a_day_ms, "RETRYCOUNT", attempt - 1, "JUSTID"),
    )


def _parse(row: Sequence[Any]) -> _Pending:
    entry_id, _, _, deliveries = row
    return _Pending(entry_id.decode(), deliveries)
