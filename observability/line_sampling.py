"""Which of many like lines are written to the log: a flood must not fill a disk, nor cost time."""

import time
from collections.abc import Callable


class LineSampler:
    """So many in each second. How many were not written is told with the next that is."""

    def __init__(self, most_per_s: int = 10, now: Callable[[], float] = time.monotonic) -> None:
        self._most_per_s = most_per_s
        self._now = now
        self._since_s = float("-inf")
        self._written = 0  # in this second
        self._unwritten = 0  # since it was last told

    def admits(self) -> bool:
        """Whether this line is written."""
        now_s = self._now()
        if now_s - self._since_s >= 1.0:
            self._since_s, self._written = now_s, 0
        if self._written < self._most_per_s:
            self._written += 1
            return True
        self._unwritten += 1
        return False

    def take_unwritten(self) -> int:
        """How many were not written since this was last asked."""
        unwritten, self._unwritten = self._unwritten, 0
        return unwritten
