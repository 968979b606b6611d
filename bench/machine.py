"""The machine and the software that a figure belongs to."""

import os
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_LIBRARIES = ("florilege", "torch", "tokenizers", "uvicorn", "aiohttp", "uvloop", "numpy")


@dataclass(frozen=True)
class Machine:
    cpu: str
    cores: int  # that this process may use
    memory_bytes: int
    system: str
    load_1m: float  # runnable tasks when the run began: above 0.5, something else was running
    versions: dict[str, str]  # of what is installed where the load comes from
    commit: str  # of the checkout, `-dirty` if it had changes; "" for an installed tree


def describe_machine() -> Machine:
    return Machine(
        cpu=_cpu(),
        cores=_cores(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=f"{platform.system()} {platform.release()}",
        load_1m=os.getloadavg()[0],
        versions={"python": platform.python_version()} | _versions(),
        commit=_commit(),
    )


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")  # Linux only
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _commit() -> str:
    command = [
        "git",
        "-C",
        str(Path(__file__).parent),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip()
