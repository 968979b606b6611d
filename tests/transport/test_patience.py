"""A timeout that an event loop's own lateness does not use up."""

import asyncio
import time
from contextlib import AbstractAsyncContextManager

import pytest

from transport.redis.patience import patience

SECONDS = 0.1


async def answer_in_turns(turns: int) -> None:
    """As Redis' do that lie there already, when each turn of the loop takes longer than SECONDS."""
    for _ in range(turns):
        await asyncio.sleep(0)
        time.sleep(1.5 * SECONDS)  # noqa: ASYNC251 - the loop is late


async def waits_for(limit: AbstractAsyncContextManager[object]) -> bool:
    async with limit:
        await asyncio.create_task(answer_in_turns(3))
    return True


async def test_a_late_loop_is_no_failure_of_what_it_waits_for() -> None:
    assert await waits_for(patience(SECONDS))
    with pytest.raises(TimeoutError):
        await waits_for(asyncio.timeout(SECONDS))


async def test_silence_ends_in_time() -> None:
    started_s = time.monotonic()
    with pytest.raises(TimeoutError):
        async with patience(SECONDS):
            await asyncio.Event().wait()
    assert time.monotonic() - started_s >= SECONDS


async def test_a_cancelled_wait_is_cancelled() -> None:
    async def wait() -> None:
        async with patience(60):
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_what_is_answered_in_time_is_not_ended_later() -> None:
    async with patience(SECONDS):
        pass
    await asyncio.sleep(3 * SECONDS)
