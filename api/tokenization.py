"""Tokenizing off the event loop: the tokenizer releases the GIL, so that threads are enough."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from transport.messages import JobError

Result = TypeVar("Result")

# A query of this size is tokenized in about 60 µs; to a thread and back takes longer.
INLINE_CHARACTERS = 256


class TokenizerPool:
    """A bounded pool: what would wait behind `max_waiting` calls is refused as overload."""

    def __init__(self, threads: int, max_waiting: int = 1_024) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="tokenizer")
        self._max_waiting = max_waiting
        self._waiting = 0

    async def run(self, work: Callable[[], Result], characters: int, timeout_s: float) -> Result:
        """The result of `work` in a thread; of `characters` that are few, at once.

        Raises:
            JobError: overloaded, or deadline when the time is up. A thread that has begun ends
                its work all the same; limits on characters bound it.
        """
        if characters <= INLINE_CHARACTERS:
            return work()
        if self._waiting >= self._max_waiting:
            raise JobError("overloaded")
        self._waiting += 1
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.wrap_future(self._executor.submit(work))
        except TimeoutError:
            raise JobError("deadline") from None
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
