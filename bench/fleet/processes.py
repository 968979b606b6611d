"""What a suite starts, each a process of its own: a private Redis, gateways, workers."""

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

_COMMAND = ("-c", "from cli.main import app; app()")
SERVE = (*_COMMAND, "serve", "--port", "0")
GATEWAY = (*_COMMAND, "gateway", "--port", "0")
REAL_WORKER = (*_COMMAND, "worker")
SERVER = ("-m", "bench.simulated_server", "--port", "0")
WORKER = ("-m", "bench.simulated_worker")

_ROOT = Path(__file__).parents[2]
_START_S = 60.0
_STOP_S = 10.0


class StartFailed(Exception):
    """A process ended, or said nothing, before it served. Holds the end of what it wrote."""


@dataclass(frozen=True)
class Started:
    pid: int
    url: str  # '' for a worker
    admin_url: str = ""


@asynccontextmanager
async def redis_server() -> AsyncIterator[Started]:
    """On a free port of this host, keeping nothing. Raises StartFailed."""
    with tempfile.TemporaryDirectory(prefix="redis-") as directory:
        port = _free_port()
        command = (
            *("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", directory),
            *("--save", "", "--appendonly", "no"),
        )
        async with _running(command, {}, Path(directory)) as process:
            await process.until("Ready to accept connections")
            yield Started(process.pid, f"redis://127.0.0.1:{port}/0")


@asynccontextmanager
async def florilege(arguments: Sequence[str], redis_url: str = "") -> AsyncIterator[Started]:
    """A command of ours by Python's arguments, once it serves. Raises StartFailed."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        settings = {"HOST": "127.0.0.1", "ADMIN_PORT": "0", "DATA_DIR": directory}
        if redis_url:
            settings["REDIS_URL"] = redis_url
        environ = {f"FLORILEGE_{name}": value for name, value in settings.items()}
        async with _running((sys.executable, *arguments), environ, Path(directory)) as process:
            line: dict[str, Any] = orjson.loads(await process.until('"event":"serving"'))
            yield Started(process.pid, line.get("url", ""), line.get("admin_url", ""))


class _Process:
    """Writes to a file: to read a pipe would be work of the load's process."""

    def __init__(self, process: asyncio.subprocess.Process, output: Path) -> None:
        self.pid = process.pid
        self._process = process
        self._output = output

    async def until(self, said: str) -> str:
        """The line that says so."""
        try:
            async with asyncio.timeout(_START_S):
                while self._process.returncode is None:
                    lines = self._output.read_text().splitlines()
                    if found := next((line for line in lines if said in line), None):
                        return found
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pass
        raise StartFailed(self._output.read_text()[-2_000:])


@asynccontextmanager
async def _running(
    command: Sequence[str], environ: dict[str, str], directory: Path
) -> AsyncIterator[_Process]:
    output = directory / "output"
    # What configures servers of the operator's must not configure those that are measured.
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("FLORILEGE_")}
    with output.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=file, stderr=file, cwd=_ROOT, env=inherited | environ
        )
    try:
        yield _Process(process, output)
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _STOP_S)
            except TimeoutError:
                process.kill()
                await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
