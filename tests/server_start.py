"""Waiting for a server that a test has started."""

import subprocess
import time
from collections.abc import Callable

_READY_S = 20.0


def wait_until_answers(
    process: subprocess.Popen[bytes], answers: Callable[[], bool], every_s: float
) -> None:
    """Raises RuntimeError where it ends first, or does not answer in time."""
    until_s = time.monotonic() + _READY_S
    while process.poll() is None and time.monotonic() < until_s:
        if answers():
            return
        time.sleep(every_s)
    state = "does not answer" if process.returncode is None else f"ended with {process.returncode}"
    raise RuntimeError(f"{process.args!r} {state}")
