"""kill -9 of a gateway while it writes its usage."""

import asyncio
import multiprocessing
import os
import random
import time
from multiprocessing.connection import Connection

from usage_flusher import flush_for_ever

from auth.calendar import day_of
from auth.usage.count import Batch, Count, Use
from auth.usage.query import UsageQuery
from auth.usage.store import UsageStore

KILLS = 25
KID = "1" * 12
# Each process is forked from one that has them, since they take longer than its life.
IMPORTED = ["auth.usage.recorder", "aiosqlite", "sqlalchemy.dialects.postgresql.asyncpg", "asyncpg"]


async def test_kill_while_usage_is_written_costs_one_interval_and_doubles_nothing(
    usage: UsageStore, database_url: str
) -> None:
    before, halfway, missing = 0, 0, 0
    for kill in range(KILLS):
        sent, confirmed = await asyncio.to_thread(_run_and_kill, database_url)
        await _settle(usage, kill)
        total = await _requests(usage)
        written = total - before
        assert written in (sent, confirmed), f"kill {kill}: {written}, {sent}, {confirmed}"
        halfway += sent > confirmed
        missing += sent - written
        before = total
    print(f"{KILLS} kills, {halfway} during a flush, {missing} of {before + missing} requests lost")
    assert halfway >= KILLS // 2  # else the kills came at other moments than they should
    assert before > KILLS


def _run_and_kill(database_url: str) -> tuple[int, int]:
    """Of one gateway: the requests it had sent to the store, and those it knew to be there."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    process = context.Process(target=_flush, args=(database_url, theirs))
    process.start()
    theirs.close()
    told = os.read(ours.fileno(), 4096)  # it is running
    time.sleep(random.uniform(0.0, 0.05))  # noqa: S311 - when to kill
    process.kill()
    process.join()
    process.close()
    while chunk := os.read(ours.fileno(), 65536):
        told += chunk
    ours.close()
    lines = [line.split() for line in told.decode().splitlines()]
    last = {step: int(number) for step, number in lines}
    return last["s"], last.get("f", 0)


def _flush(database_url: str, pipe: Connection) -> None:
    flush_for_ever(database_url, KID, pipe.fileno())


async def _settle(usage: UsageStore, kill: int) -> None:
    """A server may still be at the last words of the dead: adding nothing to the rows that it
    holds waits for it.
    """
    now = int(time.time())
    rows = {Use(day_of(now), KID, "", f"m{number}", "embed"): Count() for number in range(3)}
    await usage.add(Batch("0" * 32, kill + 1, now, rows, {}))


async def _requests(usage: UsageStore) -> int:
    return sum(total.requests for total in await usage.totals(UsageQuery()))
