"""Our server as a contender: the same texts over HTTP, from one client or several."""

import time

import numpy as np
from numpy.typing import NDArray

from bench.client import Client
from bench.load import Request, closed_loop


class ServerContender:
    """Embeds in requests of `size` texts, in the order they come."""

    sizes: tuple[int, ...] = (8, 16, 32, 64, 128, 256)

    def __init__(self, client: Client, clients: int, dtype: str) -> None:
        self.name = f"florilege, {clients} client{'s' if clients > 1 else ''}"
        self.dtype = dtype
        self.versions: dict[str, str] = {}
        self._client = client
        self._clients = clients

    async def embed_s(self, texts: list[str], size: int) -> float:
        """Seconds from the list of texts to their vectors, at the client."""
        started_s = time.perf_counter()
        await self.vectors(texts, size)
        return time.perf_counter() - started_s

    async def vectors(self, texts: list[str], size: int) -> NDArray[np.float32]:
        parts = [texts[start : start + size] for start in range(0, len(texts), size)]
        vectors: dict[int, NDArray[np.float32]] = {}
        await closed_loop(
            [self._request(vectors, i, part) for i, part in enumerate(parts)], self._clients
        )
        return np.concatenate([vectors[i] for i in range(len(parts))])

    def _request(
        self, vectors: dict[int, NDArray[np.float32]], index: int, texts: list[str]
    ) -> Request:
        async def send() -> int:
            embeddings = await self._client.embed(texts)
            vectors[index] = embeddings.vectors
            return embeddings.tokens

        return send

    async def close(self) -> None:
        """The client is its owner's to close."""
