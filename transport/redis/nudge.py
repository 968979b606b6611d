"""The hint that keys have changed, from whoever changed them to every gateway."""

import asyncio
import contextlib

from redis.exceptions import ResponseError

from transport.redis.connections import Connections
from transport.redis.errors import Unreachable
from transport.redis.keys import NUDGE
from transport.redis.line import Line

_KEEP_S = 60
_ERROR_PAUSE_S = 2.0
_FROM_THE_START = b"0-0"


class RedisNudge:
    """One entry in a stream, which each hint replaces. Whoever was not connected polls."""

    def __init__(self, connections: Connections) -> None:
        """They are the caller's to close."""
        self._connections = connections
        self._line: Line | None = None  # of `wait`, since it blocks
        self._seen = _FROM_THE_START

    async def send(self) -> None:
        """Never raises."""
        with contextlib.suppress(Unreachable):
            await self._connections.commands.execute_all(
                [("XADD", NUDGE, "MAXLEN", 1, "*", "", ""), ("EXPIRE", NUDGE, _KEEP_S)]
            )

    async def wait(self) -> None:
        """Until the next hint; at once for one of the last minute that was not seen.

        Never raises: while Redis is away it waits.
        """
        if self._line is None:
            self._line = self._connections.blocking()
        block_ms = int(self._connections.config.block_s * 1000)
        while True:
            try:
                answer = await self._line.execute(
                    "XREAD", "BLOCK", block_ms, "STREAMS", NUDGE, self._seen
                )
            except (Unreachable, ResponseError):
                self._seen = _FROM_THE_START  # another server may count from an earlier time
                await asyncio.sleep(_ERROR_PAUSE_S)
                continue
            if answer:
                self._seen = answer[0][1][-1][0]
                return
