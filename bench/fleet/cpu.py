"""How much CPU processes take. Linux alone."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

OTHERS = "others"  # all that is not ours, the kernel's own work too
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Of all threads of a process since it started."""
    return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid(3) computes it


class CpuMeter:
    """What groups of processes used since `start`, and what the rest of the machine did."""

    def __init__(self, groups: Mapping[str, Sequence[int]]) -> None:
        """`groups`: process ids by name."""
        self._groups = groups
        self.start()

    def start(self) -> None:
        self._started_s, self._busy_s, self._before_s = time.perf_counter(), _busy_s(), self._sums()

    def used_s(self) -> dict[str, float]:
        """Seconds of CPU of each group."""
        return {name: now_s - self._before_s[name] for name, now_s in self._sums().items()}

    def cores(self) -> dict[str, float]:
        """Cores that each group kept busy, and `others`."""
        wall_s = time.perf_counter() - self._started_s
        used_s = self.used_s()
        others_s = max(0.0, _busy_s() - self._busy_s - sum(used_s.values()))
        return {name: seconds / wall_s for name, seconds in (used_s | {OTHERS: others_s}).items()}

    def _sums(self) -> dict[str, float]:
        return {name: sum(map(cpu_s, pids)) for name, pids in self._groups.items()}


def _busy_s() -> float:
    """Of all cores since the machine started, what its host took from it too."""
    columns = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _, _, irq, softirq, steal = map(int, columns)
    return (user + nice + system + irq + softirq + steal) * _TICK_S
