"""Deliveries whose worker died, and those of our own that we never heard of."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from transport.redis.entries import Given
from transport.redis.keys import GROUP, LANES, model_keys
from transport.redis.line import Argument, Line
from transport.redis.scripts import RECLAIM_OWN

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
    """Note that an attempt begins. False: the entry is gone, or another worker's by now.

    Whoever claims entries may die by the first of them. The others were never run, so that a claim
    alone is not counted: else some would be given up beside the one that kills.
    Raises what `Line.execute` raises.
    """
    options = ("RETRYCOUNT", attempt, "JUSTID")
    return bool(await _reclaim_own(line, queue, worker, (entry_id,), *options))


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
            options = ("RETRYCOUNT", pending.deliveries)
            entries = await _reclaim_own(line, queue, worker, (pending.id,), *options)
            recovered += [Given(lane, raw, pending.deliveries) for raw in entries if raw]
    return recovered


async def renew(line: Line, queue: str, worker: str, ids: Sequence[str]) -> set[str]:
    """Which of these are still to be answered; their leases begin anew.

    An entry that was answered, cancelled or forgotten is not there; one that another worker claimed
    while we stood still is its own to answer.
    Raises what `Line.execute` raises.
    """
    kept = await _reclaim_own(line, queue, worker, ids, "JUSTID")
    return {entry_id.decode() for entry_id in kept}


async def give_back(line: Line, queue: str, worker: str, entry_id: str, attempt: int) -> None:
    """Let any other worker claim an entry of ours at once, as though we had never had it.

    Raises what `Line.execute` raises.
    """
    a_day_ms = 86_400_000
    options = ("IDLE", a_day_ms, "RETRYCOUNT", attempt - 1, "JUSTID")
    await _reclaim_own(line, queue, worker, (entry_id,), *options)


async def _reclaim_own(
    line: Line, queue: str, worker: str, ids: Sequence[str], *options: Argument
) -> list[Any]:
    """What XCLAIM answers, for the entries that are still the worker's."""
    arguments = (GROUP, worker, len(ids), *ids, *options)
    claimed: list[Any] = await RECLAIM_OWN.run(line, (queue,), *arguments)
    return claimed


def _parse(row: Sequence[Any]) -> _Pending:
    entry_id, _, _, deliveries = row
    return _Pending(entry_id.decode(), deliveries)
