"""Redis' clock, read without asking."""

import asyncio
from collections import deque

from transport.redis.line import Line

_SAMPLES = 8


class RedisClock:
    """The server's time in ms, from the event loop's clock and an offset that TIME told.

    The answer that took the least time is off by half of that at most. Answers that cannot both be
    right have a step of either clock between them, and the newer is.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=_SAMPLES)  # (round trip, offset) s
        self._offset_s = 0.0

    async def calibrate(self, line: Line, *, forget: bool = False) -> None:
        """Ask once. `forget` what another server said. Raises what `Line.execute` raises."""
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        seconds, micros = await line.execute("TIME")
        told_s = loop.time()
        if forget:
            self._samples.clear()
        now_s = int(seconds) + int(micros) / 1e6
        took_s, offset_s = told_s - asked_s, now_s - (asked_s + told_s) / 2
        kept = [s for s in self._samples if abs(s[1] - offset_s) <= s[0] + took_s]
        self._samples = deque([*kept, (took_s, offset_s)], maxlen=_SAMPLES)
        self._offset_s = min(self._samples)[1]

    def now_ms(self) -> float:
        return (asyncio.get_running_loop().time() + self._offset_s) * 1000

    def loop_s(self, redis_ms: float) -> float:
        """A moment of Redis' clock on the event loop's."""
        return redis_ms / 1000 - self._offset_s
