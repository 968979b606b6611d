"""Memory that a step gives back is there for the next one: no page is asked for twice."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cpu import heap

# In a thread, as the engine's is: the C library gives it heaps of its own.
PROGRAM = """
import ctypes, resource, sys, threading
import numpy as np
from checkpoint.find import find_model
from checkpoint.read import read_model
from engine.batch import Batch
from engine.engine import Engine, EngineConfig

# As a process begins, and as it stays where nothing large was freed before the first step.
for parameter in (-1, -3):  # trimming, pages of its own: from 128 KiB on
    assert ctypes.CDLL(None).mallopt(parameter, 128 << 10)

def run():
    config = EngineConfig("cpu", keep_freed_memory="keep" in sys.argv)
    loaded = Engine.load(*read_model(find_model("all-MiniLM-L6-v2")), config)
    lengths = np.full(20, 80, np.int32)
    batch = Batch("embed", np.arange(1000, 1000 + lengths.sum(), dtype=np.int32), lengths)

    def faults(steps):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(steps):
            loaded.step(batch).wait()
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    faults(20)
    print(faults(10))

thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


def faults(*arguments: str) -> int:
    """Of ten steps."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
        env=own,
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another library than glibc")
def test_pages_are_asked_for_once() -> None:
    assert heap.keep_freed_memory()
    kept, given_back = faults("keep"), faults()
    assert given_back > 10_000  # of large blocks' own pages, in every step anew
    assert kept < 1_000


def test_other_libraries_than_glibc_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    assert not heap.keep_freed_memory()
