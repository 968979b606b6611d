"""What a gateway knows of the queues: every answer of Redis says it, so that nobody has to ask."""

import asyncio
import contextlib

from redis.exceptions import ResponseError

from transport.messages import Lane
from transport.redis.errors import Unreachable
from transport.redis.keys import model_keys
from transport.redis.line import Line
from transport.redis.replies import Queued, parse_queued
from transport.redis.scripts import BACKLOG

_NOTHING: dict[Lane, int] = {"online": 0, "bulk": 0}


class QueuesHeard:
    """The newest of what was heard of each model."""

    def __init__(self, line: Line, max_age_s: float, wait_s: float) -> None:
        """`wait_s`: how long a question may keep those who need its answer."""
        self._line = line
        self._max_age_s = max_age_s
        self._wait_s = wait_s
        self._asking: dict[str, tuple[asyncio.Task[None], float]] = {}  # and since when
        self._heard: dict[str, tuple[Queued, float]] = {}  # and when

    def hear(self, model: str, queued: Queued) -> None:
        """Answers come over several lines, and not always in order."""
        known = self._heard.get(model)
        if known is None or queued.time_us >= known[0].time_us:
            self._heard[model] = (queued, asyncio.get_running_loop().time())

    async def read(self, model: str) -> Queued:
        """Asks where nothing was heard lately. Old news, or none, while Redis does not answer."""
        now_s = asyncio.get_running_loop().time()
        known = self._heard.get(model)
        if known is None or now_s - known[1] >= self._max_age_s:
            asking, since_s = self._ask(model, now_s)
            await asyncio.wait([asking], timeout=max(0.0, since_s + self._wait_s - now_s))
            known = self._heard.get(model)
        return known[0] if known else Queued(0, _NOTHING, _NOTHING)

    async def close(self) -> None:
        """Ask no more."""
        asking = [task for task, _ in self._asking.values()]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def _ask(self, model: str, now_s: float) -> tuple["asyncio.Task[None]", float]:
        """One question at a time, whoever needs the answer, and when it was asked."""
        if model not in self._asking:
            task = asyncio.create_task(self._ask_now(model))
            self._asking[model] = (task, now_s)
            task.add_done_callback(lambda _: self._asking.pop(model))
        return self._asking[model]

    async def _ask_now(self, model: str) -> None:
        keys = model_keys(model)
        with contextlib.suppress(Unreachable, ResponseError):
            text = await BACKLOG.run(self._line, (*keys.queues, *keys.tokens))
            self.hear(model, parse_queued(text))
