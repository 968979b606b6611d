"""Whether the machine was at full speed around a turn: a fixed piece of work, timed.

Counters of CPU time know what runs beside a turn on this machine, not what runs on the other half
of its cores or in its caches where it is one of several on a host. A piece of work meets all of it.
"""

import os
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_NUMBERS, _TIMES = 1 << 19, 300  # 2 MiB in and out: beyond L2; 0.05 s on a core of 4 GHz
_SLOW = 1.4  # of the usual time: another busy process on two cores makes it 1.9, migrations 1.3
_TRIES = 3  # of a turn
_FIRST_LOOKS = 8  # before the first turn, to know what is usual

Result = TypeVar("Result")


@dataclass(frozen=True)
class Turns:
    """`repeated`: those measured again, once or twice. `slow`: those slow at the last try too."""

    measured: int = 0
    repeated: int = 0
    slow: int = 0


def work_s() -> float:
    """Seconds that a piece of work takes on all cores at once."""
    cores = len(os.sched_getaffinity(0))
    numbers = [np.linspace(0, 1, _NUMBERS, dtype=np.float32) for _ in range(cores)]
    with ThreadPoolExecutor(cores) as pool:
        started_s = time.perf_counter()
        list(pool.map(_work, numbers))
        return time.perf_counter() - started_s


def _work(numbers: NDArray[np.float32]) -> None:
    results = np.empty_like(numbers)
    for _ in range(_TIMES):
        np.exp(numbers, out=results)


@dataclass(eq=False)
class Witness:
    """`look`: seconds of the piece of work, now. `usual_s`: of the quickest quarter so far."""

    look: Callable[[], float] = work_s
    turns: Turns = Turns()
    _seen_s: list[float] = field(default_factory=list)

    @property
    def usual_s(self) -> float:
        return sorted(self._seen_s)[len(self._seen_s) // 4]

    async def measure(self, turn: Callable[[], Awaitable[Result]]) -> Result:
        """What `turn` gives; asked again where the machine was slow before it or after."""
        while len(self._seen_s) < _FIRST_LOOKS:
            self._slow()
        slow, tries = True, 0
        while slow and tries < _TRIES:
            slow_before = self._slow()
            result = await turn()
            slow = self._slow() or slow_before
            tries += 1
        measured, repeated = self.turns.measured + 1, self.turns.repeated + (tries > 1)
        self.turns = Turns(measured, repeated, self.turns.slow + slow)
        return result

    def _slow(self) -> bool:
        seconds = self.look()
        self._seen_s.append(seconds)
        return seconds > _SLOW * self.usual_s
