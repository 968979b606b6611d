"""Open loop: every key sends by its own schedule, whatever becomes of what it sent."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from math import ceil

import aiohttp
import orjson

from bench.texts import Texts
from checkpoint.find import DEFAULT_MODEL

_TIMEOUT_S = 20.0
_PREPARED = 8  # bodies of each key, over and over: to draw words would be the load's work


@dataclass(frozen=True)
class Caller:
    """A key, and how often it asks."""

    name: str
    key: str
    per_s: float


@dataclass(frozen=True)
class Sent:
    """One request. Times are in seconds since the flood began."""

    due_s: float
    sent_s: float
    answered_s: float
    status: int  # 0: no answer


@dataclass(eq=False)
class Tally:
    """What became of a caller's requests, in the order of the schedule."""

    caller: Caller
    sent: list[Sent] = field(default_factory=list)

    def of(self, status: int) -> list[Sent]:
        return [sent for sent in self.sent if sent.status == status]

    @property
    def failed(self) -> int:
        return sum(sent.status not in (200, 429) for sent in self.sent)


class Sender:
    """Requests of one size, to several gateways. Use as an async context manager."""

    def __init__(self, urls: Sequence[str], tokens: int) -> None:
        self.urls = [f"{url}/v1/embeddings" for url in urls]
        texts = Texts("quotas")
        self._bodies = [
            orjson.dumps(
                {
                    "model": DEFAULT_MODEL,
                    "input": texts.of(tokens),
                    "encoding_format": "base64",
                }
            )
            for _ in range(_PREPARED)
        ]

    async def __aenter__(self) -> "Sender":
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
            headers={"content-type": "application/json"},
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def send(self, key: str, number: int) -> int:
        """The status of the answer, once it is whole; 0 for none. The gateways take turns."""
        url = self.urls[number % len(self.urls)]
        body, headers = self._bodies[number % _PREPARED], {"authorization": f"Bearer {key}"}
        try:
            async with self._session.post(url, data=body, headers=headers) as response:
                await response.read()
                return response.status
        except (aiohttp.ClientError, TimeoutError):
            return 0

    async def metric(self, admin_url: str, name: str) -> float:
        async with self._session.get(f"{admin_url}/metrics") as response:
            lines = (await response.text()).splitlines()
        return next(float(value) for told, _, value in map(_parted, lines) if told == name)

    async def flood(self, callers: Sequence[Caller], seconds: float) -> list[Tally]:
        """Every caller's requests that are due within so many seconds, all answered."""
        started_s = time.perf_counter()
        tallies = [Tally(caller) for caller in callers]
        async with asyncio.TaskGroup() as group:
            for place, tally in enumerate(tallies):
                # Spread, so that they do not all send in one moment.
                first_s = place / len(callers) / tally.caller.per_s
                group.create_task(self._follow(tally, started_s, first_s, seconds))
        for tally in tallies:
            tally.sent.sort(key=lambda sent: sent.due_s)
        return tallies

    async def _follow(self, tally: Tally, started_s: float, first_s: float, seconds: float) -> None:
        interval_s, turns = 1 / tally.caller.per_s, cycle(range(len(self.urls) * _PREPARED))
        count = ceil((seconds - first_s) / interval_s)
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                due_s = first_s + number * interval_s
                wait_s = started_s + due_s - time.perf_counter()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                group.create_task(self._one(tally, started_s, due_s, next(turns)))

    async def _one(self, tally: Tally, started_s: float, due_s: float, number: int) -> None:
        sent_s = time.perf_counter() - started_s
        status = await self.send(tally.caller.key, number)
        answered_s = time.perf_counter() - started_s
        tally.sent.append(Sent(due_s, sent_s, answered_s, status))


def _parted(line: str) -> tuple[str, str, str]:
    return line.partition(" ")
