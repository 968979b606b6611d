"""A gateway's metering in a process of its own, there to be killed at any moment."""

import asyncio
import os
import random

from usage_callers import caller

from auth.usage.recorder import UsageRecorder
from auth.usage.store import UsageStore


def flush_for_ever(database_url: str, kid: str, pipe: int) -> None:
    """Count requests of one token and flush, over and over; tell of each step beforehand.

    `s N` goes into the pipe before a flush that brings the total of this process to N, `f N` after.
    """
    asyncio.run(_flush_for_ever(database_url, kid, pipe))


async def _flush_for_ever(database_url: str, kid: str, pipe: int) -> None:
    recorder = UsageRecorder(UsageStore(database_url))
    principal = caller(kid)
    total = 0
    while True:
        for _ in range(random.randint(1, 50)):  # noqa: S311 - how many requests
            recorder.record(principal, f"m{total % 3}", "embed", 1)
            total += 1
        os.write(pipe, f"s {total}\n".encode())
        await recorder.flush()
        os.write(pipe, f"f {total}\n".encode())
