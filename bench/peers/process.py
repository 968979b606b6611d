"""A peer in its own process and environment, driven over stdin and stdout."""

import asyncio
import base64
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson
from numpy.typing import NDArray

_WORKER = Path(__file__).parent / "worker.py"
_LINE_LIMIT_BYTES = 2**26  # 256 vectors of 1,024 floats are 1.4 MB
_LOAD_TIMEOUT_S = 120.0


class PeerFailed(Exception):
    """The process ended; its traceback is on stderr."""


@dataclass(frozen=True)
class Peer:
    """How to start one: `script` stands beside the worker."""

    name: str
    dtype: str
    script: str
    reads_onnx: bool = False  # what export_onnx.py wrote, not the model's own directory
    sizes: tuple[int, ...] = (4, 8, 16, 32)  # texts a batch, to choose the best of


class PeerProcess:
    """A contender that embeds in batches of `size` texts."""

    def __init__(self, peer: Peer, process: Process) -> None:
        self.name = peer.name
        self.dtype = peer.dtype
        self.sizes = peer.sizes
        self.versions: dict[str, str] = {}
        self._process = process

    @classmethod
    async def start(cls, peer: Peer, python: Path, model_dir: Path) -> Self:
        """Returns when the model is loaded."""
        script = _WORKER.parent / peer.script
        process = await asyncio.create_subprocess_exec(
            *(str(python), "-P", str(_WORKER), str(script), str(model_dir), peer.dtype),
            stdin=PIPE,
            stdout=PIPE,
            limit=_LINE_LIMIT_BYTES,
        )
        started = cls(peer, process)
        async with asyncio.timeout(_LOAD_TIMEOUT_S):
            started.versions = (await started._read())["versions"]
        return started

    async def embed_s(self, texts: list[str], size: int) -> float:
        """Seconds from the list of texts to their vectors, inside the process."""
        return float((await self._ask(texts, size, vectors=False))["seconds"])

    async def vectors(self, texts: list[str], size: int) -> NDArray[np.float32]:
        rows = (await self._ask(texts, size, vectors=True))["vectors"]
        return np.stack([np.frombuffer(base64.b64decode(row), "<f4") for row in rows])

    async def close(self) -> None:
        """The worker ends when its stdin does."""
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.close()
        await self._process.wait()

    async def _ask(self, texts: list[str], size: int, *, vectors: bool) -> dict[str, Any]:
        assert self._process.stdin is not None  # noqa: S101
        job = orjson.dumps({"texts": texts, "size": size, "vectors": vectors})
        self._process.stdin.write(job + b"\n")
        return await self._read()

    async def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101
        line = await self._process.stdout.readline()
        if not line:
            raise PeerFailed(f"{self.name} ended with {await self._process.wait()}")
        answer: dict[str, Any] = orjson.loads(line)
        return answer
