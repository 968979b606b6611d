"""A timeout that tells a late event loop from a late Redis."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_TURNS = 20  # of the loop: some ten are between a command's enqueuing and its answer


@asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[None]:
    """As `asyncio.timeout`, but the time passes in parts, each a turn of the event loop at least.

    A loop with more to do than it can may take a second for one turn, and an answer that it has not
    looked at yet is no failure of Redis: to take it for one would cost a connection, and limits.
    """
    loop, part_s = asyncio.get_running_loop(), seconds / _TURNS
    ticking: asyncio.TimerHandle
    async with asyncio.timeout(None) as limit:

        def turn(left: int) -> None:
            nonlocal ticking
            if left:
                ticking = loop.call_later(part_s, turn, left - 1)
            else:
                limit.reschedule(loop.time())

        ticking = loop.call_later(part_s, turn, _TURNS - 1)
        try:
            yield
        finally:
            ticking.cancel()
