"""Steady load of unique texts on gateways, each answer checked against its own reference vector."""

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass, field

import httpx
import numpy as np
from numpy.typing import NDArray

from api.vectors import VectorForm, finish
from bench.simulated_engine import rows_of
from checkpoint.find import DEFAULT_MODEL, find_model
from checkpoint.read import read_model, read_tokenizer
from checkpoint.tokenizer import TextTokenizer


class References:
    """What simulated workers of the default model answer."""

    def __init__(self) -> None:
        self._spec, files = read_model(find_model(DEFAULT_MODEL))
        data = read_tokenizer(files.directory)
        self._tokenizer = TextTokenizer(data, self._spec.max_tokens, self._spec.vocab_size)

    def vector(self, text: str) -> NDArray[np.float32]:
        encoded = self._tokenizer.encode([text])
        rows = rows_of(encoded.input_ids, encoded.lengths, self._spec.dim)
        vector: NDArray[np.float32] = finish(rows, self._spec, VectorForm())[0]
        return vector


@dataclass(eq=False)
class LoadDriver:
    """`rotation` holds the URLs that requests go to, in turn; a test takes gateways out of it."""

    rotation: list[str]
    references: References
    answered: int = 0
    wrong: list[str] = field(default_factory=list)  # texts
    failures: Counter[str] = field(default_factory=Counter)  # by status or class of the error
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _running: list[asyncio.Task[None]] = field(default_factory=list)
    _ended: bool = False

    def start(self, clients: int = 16) -> None:
        self._running = [asyncio.create_task(self._drive()) for _ in range(clients)]

    async def stop(self) -> None:
        """Every request that began has its answer."""
        self._ended = True
        await asyncio.gather(*self._running)

    async def until(self, answered: int) -> None:
        """As many more answers."""
        goal = self.answered + answered
        while self.answered < goal:
            await asyncio.sleep(0.01)

    async def _drive(self) -> None:
        async with httpx.AsyncClient(timeout=40) as client:
            while not self._ended:
                number = next(self._numbers)
                text = f"text {number} of some more words " + "than the last " * (number % 7)
                await self._ask(client, self.rotation[number % len(self.rotation)], text)

    async def _ask(self, client: httpx.AsyncClient, url: str, text: str) -> None:
        body = {"model": DEFAULT_MODEL, "input": text}
        try:
            answer = await client.post(f"{url}/v1/embeddings", json=body)
        except httpx.HTTPError as error:
            self.failures[type(error).__name__] += 1
            return
        if answer.status_code != 200:
            self.failures[str(answer.status_code)] += 1
            return
        vector = np.array(answer.json()["data"][0]["embedding"], np.float32)
        if not np.allclose(vector, self.references.vector(text), atol=1e-5):
            self.wrong.append(text)
        self.answered += 1
