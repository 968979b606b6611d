"""Gateways and workers at one Redis, each a process of its own."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from server_process import COMMAND, ServerProcess, start

SIMULATED = (sys.executable, "-m", "bench.simulated_worker")
MODEL = "all-MiniLM-L6-v2"


class Deployment:
    """What it starts may not serve yet: `settle` waits for all of it."""

    def __init__(self, redis_url: str, data_dir: Path) -> None:
        self.processes: list[ServerProcess] = []
        self._data_dir = data_dir
        self.environ = {"FLORILEGE_REDIS_URL": redis_url, "FLORILEGE_ADMIN_PORT": "0"}

    def gateway(self, *flags: str, command: Sequence[str] = COMMAND) -> ServerProcess:
        own = ["gateway", "--port", "0", "--data-dir", str(self._data_dir)]
        return self._start([*command, *own, *flags])

    def worker(self, *flags: str, command: Sequence[str] = (*COMMAND, "worker")) -> ServerProcess:
        return self._start([*command, *flags])

    def simulated_worker(self, *flags: str) -> ServerProcess:
        """Serves MiniLM's tokens and names, and rows of `bench.simulated_engine.rows_of`."""
        return self.worker(*flags, command=SIMULATED)

    def settle(self) -> None:
        for process in self.processes:
            if process.process.poll() is None:
                process.wait_until_serving()

    def _start(self, arguments: list[str]) -> ServerProcess:
        process = start(arguments, self.environ)
        self.processes.append(process)
        return process


@contextmanager
def deployment(redis_url: str, data_dir: Path) -> Iterator[Deployment]:
    """Killed at the end, whatever of it still runs."""
    deployed = Deployment(redis_url, data_dir)
    try:
        yield deployed
    finally:
        with ExitStack() as stack:  # all of them, whatever one has told
            for process in deployed.processes:
                stack.callback(process.end)
