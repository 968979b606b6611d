"""Requests of one text in turns to either app, and what the turns differ in."""

import http.client
import os
import random
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import orjson

from bench.client import RequestFailed
from bench.fleet.cpu import OTHERS, CpuMeter
from bench.fleet.processes import florilege
from bench.machine import Machine, describe_machine
from bench.statistics import Latency, latency
from bench.texts import Texts

SCHEMA = 1
SIDES = ("bare", "observed")


@dataclass(frozen=True)
class OverheadEffort:
    rounds: int = 200
    turn: int = 25  # requests of one side, one after another
    tokens: int = 16
    simulated: bool = False


@dataclass(frozen=True)
class Added:
    """The median over the rounds of observed minus bare, and what holds it with 95 %."""

    median_us: float
    low_us: float
    high_us: float


@dataclass(frozen=True)
class OverheadResults:
    date: str  # ISO 8601, UTC
    machine: Machine
    model: str
    tokens: int  # a request of one text
    rounds: int
    turn: int
    latencies: dict[str, Latency]  # by side
    others_cores: float  # what the machine's other work took meanwhile
    loop_cpu_us: dict[str, float]  # of the event loop's thread, each request, medians
    cpu_us: dict[str, float]  # of the whole process
    added_latency: Added  # to the median of a turn
    added_wall: Added  # from one request to the next: what is done after an answer too
    added_loop_cpu: Added
    schema: int = SCHEMA

    @property
    def share(self) -> float:
        """What a client waits longer, of the latency without: for its answer, or until the next.

        CPU that the event loop takes after an answer, while the client does something else, is
        waited for by nobody; it is told beside.
        """
        most_us = max(self.added_latency.median_us, self.added_wall.median_us)
        return most_us / (self.latencies["bare"].p50_ms * 1000)

    @property
    def cpu_share(self) -> float:
        """What the loop's CPU is more, of the CPU of a request."""
        return self.added_loop_cpu.median_us / self.cpu_us["bare"]


class Ran(NamedTuple):
    model: str
    others_cores: float


@dataclass(frozen=True)
class _Turn:
    latencies_s: list[float]
    wall_s: float  # each request
    loop_cpu_s: float  # each request
    cpu_s: float  # each request

    @property
    def median_s(self) -> float:
        return float(np.median(self.latencies_s))


async def measure_overhead(effort: OverheadEffort, tell: Callable[[str], None]) -> OverheadResults:
    """Raises StartFailed and RequestFailed."""
    machine = describe_machine()
    arguments = ("-m", "bench.overhead.server", *(["--simulated"] if effort.simulated else []))
    tell("starting the server")
    async with florilege(arguments) as server:
        with ExitStack() as stack:
            meter = stack.enter_context(closing(_Connection(server.url)))
            told = meter.ask()
            sides = {side: stack.enter_context(closing(_Connection(told[side]))) for side in SIDES}
            cpu = CpuMeter({"server": [server.pid], "load": [os.getpid()]})
            rounds = _take_rounds(sides, meter, effort, tell)
            others_cores = cpu.cores()[OTHERS]
    return _results(machine, Ran(told["model"], others_cores), effort, rounds)


def _take_rounds(
    sides: dict[str, "_Connection"],
    meter: "_Connection",
    effort: OverheadEffort,
    tell: Callable[[str], None],
) -> list[dict[str, _Turn]]:
    texts = Texts("overhead")
    for connection in sides.values():
        _take_turn(connection, meter, texts, effort, requests=4 * effort.turn)
    tell(f"{effort.rounds} rounds of {effort.turn} requests to each")
    rounds = []
    for _ in range(effort.rounds):
        order = random.sample(SIDES, k=2)
        turns = {s: _take_turn(sides[s], meter, texts, effort, effort.turn) for s in order}
        rounds.append(turns)
    return rounds


class _Connection:
    """One, kept alive, that blocks: the load must not have a loop of its own to wait for."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc)

    def close(self) -> None:
        self._connection.close()

    def ask(self) -> dict[str, Any]:
        self._connection.request("GET", "/")
        told: dict[str, Any] = orjson.loads(self._connection.getresponse().read())
        return told

    def embed(self, body: bytes) -> None:
        headers = {"content-type": "application/json"}
        self._connection.request("POST", "/v1/embeddings", body, headers)
        response = self._connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RequestFailed(f"{response.status}: {content[:200].decode()}")


def _take_turn(
    connection: _Connection, meter: _Connection, texts: Texts, effort: OverheadEffort, requests: int
) -> _Turn:
    bodies = [
        orjson.dumps({"model": "all-MiniLM-L6-v2", "input": texts.of(effort.tokens)})
        for _ in range(requests)
    ]
    before = meter.ask()
    latencies_s, began_s = [], time.perf_counter()
    for body in bodies:
        sent_s = time.perf_counter()
        connection.embed(body)
        latencies_s.append(time.perf_counter() - sent_s)
    wall_s = time.perf_counter() - began_s
    after = meter.ask()
    loop_cpu_s, cpu_s = (
        (after[name] - before[name]) / requests for name in ("loop_cpu_s", "cpu_s")
    )
    return _Turn(latencies_s, wall_s / requests, loop_cpu_s, cpu_s)


def _results(
    machine: Machine, ran: Ran, effort: OverheadEffort, rounds: list[dict[str, _Turn]]
) -> OverheadResults:
    def added(figure: Callable[[_Turn], float]) -> Added:
        return added_by([figure(r["observed"]) - figure(r["bare"]) for r in rounds])

    def medians_us(figure: Callable[[_Turn], float]) -> dict[str, float]:
        return {s: float(np.median([figure(r[s]) for r in rounds])) * 1e6 for s in SIDES}

    return OverheadResults(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine,
        model=ran.model,
        others_cores=ran.others_cores,
        tokens=effort.tokens,
        rounds=effort.rounds,
        turn=effort.turn,
        latencies={s: latency([x for r in rounds for x in r[s].latencies_s]) for s in SIDES},
        loop_cpu_us=medians_us(lambda turn: turn.loop_cpu_s),
        cpu_us=medians_us(lambda turn: turn.cpu_s),
        added_latency=added(lambda turn: turn.median_s),
        added_wall=added(lambda turn: turn.wall_s),
        added_loop_cpu=added(lambda turn: turn.loop_cpu_s),
    )


def added_by(differences_s: list[float]) -> Added:
    """The interval is that of a median: order statistics of the binomial, by its normal limit."""
    ordered = sorted(differences_s)
    count = len(ordered)
    reach = 1.96 * count**0.5 / 2
    low, high = max(0, int(count / 2 - reach)), min(count - 1, int(count / 2 + reach))
    median = float(np.median(ordered))
    return Added(median * 1e6, ordered[low] * 1e6, ordered[high] * 1e6)
