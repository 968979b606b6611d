"""Callers of a gateway who do all that dashboards have panels for, and count what they are told."""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
from deployment import MODEL

FAILING_WORD = "failure"
FAILING_ID = 4945  # that word in MiniLM's vocabulary
LONG = "many words of one long text " * 50  # beyond MiniLM's 256 tokens: cut to them
LEFT = "499"  # what a gateway counts where the client was gone


class Callers:
    """`told`: answers by their status."""

    def __init__(self, url: str, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        self.told: Counter[str] = Counter()
        self._client = httpx.AsyncClient(
            base_url=url, headers=headers, timeout=40, limits=httpx.Limits(max_connections=None)
        )
        self._numbers = itertools.count()

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(self, inputs: object, timeout_s: float = 40, **headers: str) -> int:
        """The status; 499 for an answer that was not waited for."""
        body = {"model": MODEL, "input": inputs, "truncate": True}
        request = self._client.post("/v1/embeddings", json=body, headers=headers)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await request
        except TimeoutError:
            self.told[LEFT] += 1
            return int(LEFT)
        self.told[str(answer.status_code)] += 1
        return answer.status_code

    @contextlib.asynccontextmanager
    async def busy(self, clients: int) -> AsyncIterator[None]:
        """Small requests meanwhile, every eighth of the bulk lane; at the end all are answered."""
        leaving = asyncio.Event()

        async def drive() -> None:
            while not leaving.is_set():
                number = next(self._numbers)
                lane = "online" if number % 8 else "bulk"
                text = f"text {number}" + " word" * (number % 20)
                await self.ask(text, **{"x-florilege-lane": lane})
                await asyncio.sleep(0.05)

        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(drive())
            try:
                yield
            finally:
                leaving.set()

    async def at_once(self, requests: int, inputs: int, **headers: str) -> list[int]:
        """Many long texts at a time: full batches, and a backlog."""
        return await asyncio.gather(
            *(self.ask([f"{number} {LONG}"] * inputs, **headers) for number in range(requests))
        )

    async def impatiently(self) -> None:
        """While no worker works: deadlines that pass, and callers that leave."""
        late = {"x-florilege-timeout-ms": "300"}
        statuses = await asyncio.gather(
            *(self.ask("too late", **late) for _ in range(4)),
            *(self.ask("gone", timeout_s=0.3) for _ in range(4)),
        )
        assert statuses == [504] * 4 + [int(LEFT)] * 4, statuses

    async def wrongly(self, bad_key: str) -> None:
        """A request for each way to be at fault, and one that is the device's."""
        bad = {"Authorization": f"Bearer {bad_key}"}
        bodies: list[tuple[dict[str, Any], int]] = [
            ({"content": b"{"}, 400),
            ({"json": {"model": "unknown", "input": "text"}}, 404),
            ({"json": {"model": MODEL, "input": "text"}, "headers": bad}, 401),
            ({"json": {"model": MODEL, "input": FAILING_WORD}}, 500),
        ]
        for request, status in bodies:
            json = {"Content-Type": "application/json"}
            headers = {**json, **request.pop("headers", {})}
            answer = await self._client.post("/v1/embeddings", headers=headers, **request)
            assert answer.status_code == status, answer.text
            self.told[str(status)] += 1

    async def again(self) -> None:
        """As OpenAI's SDKs do after a refusal."""
        for retry in ("1", "2"):
            await self.ask("once more", **{"x-stainless-retry-count": retry})

    async def beyond_its_limit(self, key: str, requests: int) -> list[int]:
        headers = {"Authorization": f"Bearer {key}"}
        return [await self.ask("text", **headers) for _ in range(requests)]
