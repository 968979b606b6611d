"""Steady load: clients that ask at a pace, of whatever gateways are in rotation, and try again."""

import asyncio
import itertools
import random
import time
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
import numpy as np
from faults.history import Event, Vectors

from checkpoint.find import DEFAULT_MODEL

SLOW_S = 1.0  # no request takes that long while nothing is wrong
_GIVE_UP_S = 60.0
_BULK = 4  # one request of so many is bulk
_LARGE, _LARGE_TEXTS = 21, 40  # and one of so many is of several jobs
_WORDS = ("river", "stone", "cloud", "bread", "music", "train", "paper", "light", "garden")


@dataclass(frozen=True)
class Pace:
    clients: int = 24
    period_s: float = 0.3  # of each client, from one request to the next, at most one at a time

    @property
    def requests_per_s(self) -> float:
        return self.clients / self.period_s


class Load:
    """A balancer's clients: `rotation` is its list of gateways, which others change."""

    def __init__(self, rotation: list[str], pace: Pace | None = None) -> None:
        self.rotation = rotation
        self.history: list[Event] = []
        self.answered = 0
        self.open: dict[int, Event] = {}  # by request, its latest attempt: `at_s` is the first's
        self.trouble_s = 0.0  # when a request last ended late, or was refused, or broke
        self._pace = pace or Pace()
        self._numbers, self._turns = itertools.count(), itertools.count()
        self._random = random.Random(7)  # noqa: S311
        self._ended = False
        self._clients: list[asyncio.Task[None]] = []
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "Load":
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=_GIVE_UP_S, connect=2),
        )
        self._clients = [asyncio.create_task(self._client()) for _ in range(self._pace.clients)]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Every request that began has ended."""
        self._ended = True
        await asyncio.gather(*self._clients)
        assert self._session is not None
        await self._session.close()

    def open_at(self, gateway: str) -> int:
        """Requests that wait for this gateway."""
        return sum(event.gateway == gateway for event in self.open.values())

    def overdue(self, now_s: float) -> bool:
        return any(now_s - event.at_s > SLOW_S for event in self.open.values())

    def take_ended(self) -> list[Event]:
        """The events of requests that have ended, which leave the history."""
        ended = [event for event in self.history if event.request not in self.open]
        self.history = [event for event in self.history if event.request in self.open]
        return ended

    async def _client(self) -> None:
        await asyncio.sleep(self._random.uniform(0, self._pace.period_s))
        while not self._ended:
            began_s = time.monotonic()
            await self._request()
            await asyncio.sleep(max(0.0, began_s + self._pace.period_s - time.monotonic()))

    async def _request(self) -> None:
        number = next(self._numbers)
        texts = self._texts(number)
        invoked = Event(number, "invoke", time.monotonic(), texts=texts)
        self._add(invoked)
        kind = ""
        while kind not in ("ok", "fail"):
            gateway = self.rotation[next(self._turns) % len(self.rotation)]
            self.open[number] = invoked._replace(gateway=gateway)
            event, wait_s = await self._attempt(number, gateway, texts)
            if event.at_s - invoked.at_s > _GIVE_UP_S and event.kind != "ok":
                event = event._replace(kind="fail")
            kind = event.kind
            if kind != "ok" or event.at_s - invoked.at_s > SLOW_S:
                self.trouble_s = event.at_s
            self._add(event)
            await asyncio.sleep(wait_s)
        del self.open[number]

    async def _attempt(
        self, number: int, gateway: str, texts: Sequence[str]
    ) -> tuple[Event, float]:
        """What became of it, and how long to wait before the next."""
        body = {"model": DEFAULT_MODEL, "input": texts, "encoding_format": "base64"}
        lane = {"x-florilege-lane": "online" if number % _BULK else "bulk"}
        url = f"{gateway}/v1/embeddings"
        assert self._session is not None
        try:
            async with self._session.post(url, json=body, headers=lane) as response:
                answer = await response.json()
        except (aiohttp.ClientError, TimeoutError):
            return Event(number, "broken", time.monotonic(), gateway), 0.05
        now_s = time.monotonic()
        if response.status == 503:
            wait_s = float(response.headers["retry-after-ms"]) / 1000
            return Event(number, "refused", now_s, gateway, status=503), wait_s
        if response.status != 200:
            return Event(number, "fail", now_s, gateway, status=response.status), 0.0
        rows = _rows(answer)
        tokens = answer["usage"]["prompt_tokens"]
        return Event(number, "ok", now_s, gateway, rows=rows, tokens=tokens), 0.0

    def _add(self, event: Event) -> None:
        self.answered += event.kind == "ok"
        self.history.append(event)

    def _texts(self, number: int) -> tuple[str, ...]:
        """Unique ones."""
        count = self._random.randint(1, 4) if number % _LARGE else _LARGE_TEXTS
        return tuple(f"{number} {i} {self._words()}" for i in range(count))

    def _words(self) -> str:
        return " ".join(self._random.choices(_WORDS, k=self._random.randint(1, 24)))


def _rows(answer: dict[str, list[dict[str, str]]]) -> Vectors:
    return np.stack([np.frombuffer(b64decode(item["embedding"]), "<f4") for item in answer["data"]])
