"""A hint that the keys have changed, so that nobody waits for the next poll."""

import asyncio
from typing import Protocol


class Nudge(Protocol):
    """It may be lost, and it may come for nothing: what must not be missed is polled for.

    Neither method raises.
    """

    async def send(self) -> None:
        """Tell whoever waits, now or from now on."""
        ...

    async def wait(self) -> None:
        """Until the next hint, for as long as that takes."""
        ...


class LocalNudge:
    """Within one process: from the admin API to the watch beside it."""

    def __init__(self) -> None:
        self._sent = asyncio.Event()

    async def send(self) -> None:
        self._sent.set()

    async def wait(self) -> None:
        await self._sent.wait()
        self._sent.clear()
