"""Open loop: requests leave when a schedule says so, whether or not others were answered.

Latency counts from the scheduled moment. A server that stalls is then charged for all who would
have come meanwhile, where a closed loop would have waited with it.
"""

import asyncio
import math
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from bench.client import RequestFailed, RequestRefused
from bench.load import Request


@dataclass(frozen=True)
class Bounds:
    """What keeps a run finite where a server does not keep up.

    Arrivals beyond `in_flight` wait on the client's side, and their time counts. What is not
    answered `drain_s` after the last arrival is given up, and told as unfinished.
    """

    in_flight: int = 1_000
    drain_s: float = 10.0


@dataclass(frozen=True)
class Schedule:
    """`due_s`: when each request leaves, from the start. Before `warmup_s` none is counted."""

    due_s: Sequence[float]
    warmup_s: float
    seconds: float  # counted, after the warm-up


@dataclass(eq=False)
class OpenLoad:
    """What became of the arrivals that count; each is in one of the four."""

    latencies_s: list[float] = field(default_factory=list)  # of those answered
    refused: int = 0
    failed: int = 0
    unfinished: int = 0
    in_time: int = 0  # answers that came within the counted seconds, to whichever arrivals
    tokens: int = 0  # of those answers
    late_s: list[float] = field(default_factory=list)  # what the client itself was late to send
    most_in_flight: int = 0
    reasons: Counter[str] = field(default_factory=Counter)  # of refusals and failures

    @property
    def arrivals(self) -> int:
        return len(self.latencies_s) + self.refused + self.failed + self.unfinished


def poisson(rate: float, seconds: float, seed: str, warmup_s: float = 0.0) -> Schedule:
    """Arrivals of so many requests a second, independent of each other; the seed repeats them."""
    drawn = random.Random(seed)
    due_s: list[float] = []
    at_s = _gap_s(drawn, rate)
    while at_s < warmup_s + seconds:
        due_s.append(at_s)
        at_s += _gap_s(drawn, rate)
    return Schedule(due_s, warmup_s, seconds)


def _gap_s(drawn: random.Random, rate: float) -> float:
    return -math.log(1.0 - drawn.random()) / rate


async def open_loop(requests: Sequence[Request], schedule: Schedule, bounds: Bounds) -> OpenLoad:
    """Send each request when it is due; one that is refused or fails does not end the run."""
    run = _Run(requests, schedule, bounds)
    with _paced(schedule.due_s, run.arrive) as run.started_s:
        await run.until_over()
    return run.load


class _Run:
    def __init__(self, requests: Sequence[Request], schedule: Schedule, bounds: Bounds) -> None:
        self.load = OpenLoad()
        self.started_s = 0.0
        self._requests = requests
        self._schedule = schedule
        self._bounds = bounds
        self._waiting: deque[int] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._left = len(requests)
        self._over = asyncio.Event()
        self._broken: BaseException | None = None
        self._end_s = schedule.warmup_s + schedule.seconds

    def arrive(self, number: int) -> None:
        if self._counts(number):
            at_s = time.perf_counter() - self.started_s
            self.load.late_s.append(at_s - self._schedule.due_s[number])
        self._waiting.append(number)
        self._send()

    async def until_over(self) -> None:
        """All have ended, or were given up. Raises what is no failed request."""
        if self._left:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), self._end_s + self._bounds.drain_s)
        given_up = [*self._running]
        for task in given_up:
            task.cancel()
        await asyncio.gather(*given_up, return_exceptions=True)
        if self._broken is not None:
            raise self._broken
        counted = sum(map(self._counts, range(len(self._requests))))
        self.load.unfinished = counted - self.load.arrivals

    def _send(self) -> None:
        while self._waiting and len(self._running) < self._bounds.in_flight:
            task = asyncio.create_task(self._ask(self._waiting.popleft()))
            self._running.add(task)
            task.add_done_callback(self._ended)
        self.load.most_in_flight = max(self.load.most_in_flight, len(self._running))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._left -= 1
        if task.cancelled():
            return
        self._broken = self._broken or task.exception()
        self._send()
        if not self._left or self._broken is not None:
            self._over.set()

    async def _ask(self, number: int) -> None:
        load = self.load
        try:
            tokens = await self._requests[number]()
        except RequestFailed as failure:
            if self._counts(number):
                load.reasons[str(failure)[:200]] += 1
                if isinstance(failure, RequestRefused):
                    load.refused += 1
                else:
                    load.failed += 1
            return
        at_s = time.perf_counter() - self.started_s
        if self._counts(number):
            load.latencies_s.append(at_s - self._schedule.due_s[number])
        if self._schedule.warmup_s <= at_s <= self._end_s:
            load.in_time += 1
            load.tokens += tokens

    def _counts(self, number: int) -> bool:
        return self._schedule.due_s[number] >= self._schedule.warmup_s


@contextmanager
def _paced(due_s: Sequence[float], arrive: Callable[[int], None]) -> Iterator[float]:
    """Call `arrive` on the loop when each is due; the moment from which it is reckoned.

    By a thread, since timers of an event loop are of whole milliseconds.
    """
    loop, stop = asyncio.get_running_loop(), threading.Event()
    started_s = time.perf_counter()

    def pace() -> None:
        for number, due in enumerate(due_s):
            if stop.wait(max(0.0, started_s + due - time.perf_counter())):
                return
            loop.call_soon_threadsafe(arrive, number)

    thread = threading.Thread(target=pace, name="arrivals", daemon=True)
    thread.start()
    try:
        yield started_s
    finally:
        stop.set()
        thread.join()
