"""The pool that tokenizes: bounded in number and in time."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from api.tokenization import INLINE_CHARACTERS, TokenizerPool
from transport.messages import JobError

LARGE = INLINE_CHARACTERS + 1


@pytest.fixture
def pool() -> Iterator[TokenizerPool]:
    pool = TokenizerPool(threads=1, max_waiting=2)
    yield pool
    pool.close()


async def test_large_work_runs_in_a_thread_and_small_work_at_once(pool: TokenizerPool) -> None:
    here = threading.get_ident()
    assert await pool.run(threading.get_ident, LARGE, 10) != here
    assert await pool.run(threading.get_ident, INLINE_CHARACTERS, 10) == here


async def test_more_than_may_wait_is_overload(pool: TokenizerPool) -> None:
    gate = threading.Event()
    waiting = [asyncio.create_task(pool.run(gate.wait, LARGE, 10)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(JobError, match="overloaded"):
        await pool.run(gate.wait, LARGE, 10)
    gate.set()
    assert await asyncio.gather(*waiting) == [True, True]
    assert await pool.run(gate.wait, LARGE, 10)


async def test_work_past_the_deadline_is_given_up(pool: TokenizerPool) -> None:
    gate = threading.Event()
    with pytest.raises(JobError, match="deadline"):
        await pool.run(gate.wait, LARGE, 0.01)
    gate.set()


async def test_fault_of_the_work_is_the_callers(pool: TokenizerPool) -> None:
    def fail() -> None:
        raise ValueError("no")

    for characters in (1, LARGE):
        with pytest.raises(ValueError, match="no"):
            await pool.run(fail, characters, 10)
