"""A server as a contender: the same texts over HTTP, from one client or several."""

import asyncio
import os
import signal
import socket
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bench.client import Client, Endpoint, RequestFailed
from bench.load import Request, closed_loop
from bench.peers.contender import About, Size
from bench.peers.process import PeerFailed, send_to_group

_START_S = 120.0
_STOP_S = 10.0
_FIRST = ["first"]  # what a server is asked before its turn is timed


class ServerContender:
    """Embeds in requests of `size` texts, in the order they come, timed at the client.

    `process`: what is stopped between turns, and all it started; None: it goes on.
    `prompt`: what the server puts in front of each text by itself.
    """

    def __init__(
        self,
        about: About,
        endpoint: Endpoint,
        model: str,
        process: Process | None = None,
        prompt: str = "",
    ) -> None:
        self.about = about
        self._endpoint, self._model = endpoint, model
        self.process = process
        self._prompt = prompt
        self._client = Client(endpoint, model)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.__aexit__(None, None, None)

    async def embed_s(self, texts: list[str], size: Size) -> float:
        started_s = time.perf_counter()
        await self._embed(texts, size)
        return time.perf_counter() - started_s

    async def alone_s(self, texts: list[str]) -> list[float]:
        requests = [self._request({}, i, [text]) for i, text in enumerate(texts)]
        return (await closed_loop(requests, clients=1)).latencies_s

    async def vectors(self, texts: list[str]) -> NDArray[np.float32]:
        return await self._embed(texts, self.about.sizes[0])

    async def resume(self) -> None:
        """Connections are new: those that a server held while it was stopped it may close."""
        if self.process is not None:
            send_to_group(self.process, signal.SIGCONT)
            await self._client.__aexit__(None, None, None)
            self._client = Client(self._endpoint, self._model)
            await self._client.__aenter__()
        await self._client.embed(_FIRST)

    async def pause(self) -> None:
        if self.process is not None:
            send_to_group(self.process, signal.SIGSTOP)

    async def _embed(self, texts: list[str], size: Size) -> NDArray[np.float32]:
        parts = [texts[start : start + size.count] for start in range(0, len(texts), size.count)]
        vectors: dict[int, NDArray[np.float32]] = {}
        requests = [self._request(vectors, i, part) for i, part in enumerate(parts)]
        await closed_loop(requests, size.clients)
        return np.concatenate([vectors[i] for i in range(len(parts))])

    def _request(
        self, vectors: dict[int, NDArray[np.float32]], index: int, texts: list[str]
    ) -> Request:
        texts = [text.removeprefix(self._prompt) for text in texts]

        async def send() -> int:
            embeddings = await self._client.embed(texts)
            vectors[index] = embeddings.vectors
            return embeddings.tokens

        return send


@dataclass(frozen=True)
class Served:
    """A server of somebody else's. `{port}` in `command` is a free one; `model`: its id there."""

    command: Sequence[str]
    model: str
    environ: dict[str, str] = field(default_factory=dict)
    directory: Path = Path()
    prompt: str = ""


@asynccontextmanager
async def peer_server(about: About, served: Served) -> AsyncIterator[ServerContender]:
    """Raises PeerFailed with the end of what it wrote, where it does not come to answer."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        output = Path(folder) / "output"
        with output.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *(part.format(port=port) for part in served.command),
                stdout=file,
                stderr=file,
                cwd=served.directory,
                env=os.environ | served.environ,
                start_new_session=True,
            )
        endpoint = Endpoint(f"http://127.0.0.1:{port}")
        try:
            async with ServerContender(
                about, endpoint, served.model, process, served.prompt
            ) as contender:
                await _until_answered(contender, process, output)
                yield contender
        finally:
            await _end(process)


async def _until_answered(contender: ServerContender, process: Process, output: Path) -> None:
    deadline_s = time.monotonic() + _START_S
    said = ""
    while process.returncode is None and time.monotonic() < deadline_s:
        try:
            await contender.vectors(_FIRST)
        except RequestFailed as error:
            said = str(error)
            await asyncio.sleep(0.2)
        else:
            return
    end = (await asyncio.to_thread(output.read_text, errors="replace"))[-1_000:]
    raise PeerFailed(f"{contender.about.name} does not answer: {said}\n{end}")


async def _end(process: Process) -> None:
    send_to_group(process, signal.SIGCONT)
    send_to_group(process, signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _STOP_S)
    except TimeoutError:
        send_to_group(process, signal.SIGKILL)
        await process.wait()
