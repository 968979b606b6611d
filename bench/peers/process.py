"""An engine in its own process and environment, driven over stdin and stdout."""

import asyncio
import base64
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from bench.peers.contender import About, Size

_WORKER = Path(__file__).parent / "worker.py"
_LINE_LIMIT_BYTES = 2**26  # 256 vectors of 1,024 floats are 1.4 MB
_LOAD_TIMEOUT_S = 120.0


class PeerFailed(Exception):
    """A process ended, or never began to answer."""


class PeerProcess:
    """A contender that embeds in batches of `size`."""

    def __init__(self, about: About, process: Process) -> None:
        self.about = about
        self.pid = process.pid
        self._process = process

    async def embed_s(self, texts: list[str], size: Size) -> float:
        """Inside the process: its pipes do not count."""
        (seconds,) = (await self._ask(texts, size))["seconds"]
        return float(seconds)

    async def alone_s(self, texts: list[str]) -> list[float]:
        answer = await self._ask(texts, self.about.sizes[0], alone=True)
        return [float(seconds) for seconds in answer["seconds"]]

    async def vectors(self, texts: list[str]) -> NDArray[np.float32]:
        rows = (await self._ask(texts, self.about.sizes[0], vectors=True))["vectors"]
        return np.stack([np.frombuffer(base64.b64decode(row), "<f4") for row in rows])

    async def resume(self) -> None:
        send_to_group(self._process, signal.SIGCONT)

    async def pause(self) -> None:
        send_to_group(self._process, signal.SIGSTOP)

    async def load(self) -> None:
        """Wait until it has loaded the model."""
        try:
            async with asyncio.timeout(_LOAD_TIMEOUT_S):
                versions = (await self._read())["versions"]
        except TimeoutError:
            raise PeerFailed(f"{self.about.name} loads for {_LOAD_TIMEOUT_S:.0f} s") from None
        self.about = replace(self.about, versions=versions)

    async def close(self) -> None:
        """The worker ends when its stdin does."""
        assert self._process.stdin is not None  # noqa: S101
        await self.resume()
        self._process.stdin.close()
        await self._process.wait()

    async def _ask(
        self, texts: list[str], size: Size, *, alone: bool = False, vectors: bool = False
    ) -> dict[str, Any]:
        assert self._process.stdin is not None  # noqa: S101
        job = {"texts": texts, "size": size.count, "alone": alone, "vectors": vectors}
        self._process.stdin.write(orjson.dumps(job) + b"\n")
        return await self._read()

    async def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101
        line = await self._process.stdout.readline()
        if not line:
            raise PeerFailed(f"{self.about.name} ended with {await self._process.wait()}")
        answer: dict[str, Any] = orjson.loads(line)
        return answer


@asynccontextmanager
async def peer_process(about: About, command: tuple[str | Path, ...]) -> AsyncIterator[PeerProcess]:
    """`command`: the interpreter, and what worker.py takes. Raises PeerFailed."""
    python, *arguments = map(str, command)
    process = await asyncio.create_subprocess_exec(
        *(python, "-P", str(_WORKER), *arguments),
        stdin=PIPE,
        stdout=PIPE,
        limit=_LINE_LIMIT_BYTES,
        start_new_session=True,
    )
    peer = PeerProcess(about, process)
    try:
        await peer.load()
        yield peer
    finally:
        await peer.close()


def send_to_group(process: Process, number: signal.Signals) -> None:
    """To a process that leads a group, and all it started; nothing to one that has ended."""
    if process.returncode is None:
        os.killpg(process.pid, number)
