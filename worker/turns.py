"""Who may have steps on the device: everybody together, or one delivery with nobody beside it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Of one process, shared by the workers of all its models.

    A job that is delivered again may have ended the process that had it. Whatever is in flight when
    it does so again counts a death too, and a few deaths make a job poison: so it runs when nothing
    else is in flight. First come first served: who waits to be alone is not overtaken for ever.
    """

    def __init__(self) -> None:
        self._door = asyncio.Lock()  # held while someone is alone, or waits to be
        self._inside = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        async with self._door:
            self._inside += 1
            self._empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        async with self._door:
            await self._empty.wait()
            yield
