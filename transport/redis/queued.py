"""What a gateway knows of the queues: every answer of Redis says it, so that nobody has to ask."""

import asyncio

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

    def __init__(self, line: Line, max_age_s: float) -> None:
        self._line = line
        self._max_age_s = max_age_s
        self._heard: dict[str, tuple[Queued, float]] = {}  # and when

    def hear(self, model: str, queued: Queued) -> None:
        """Answers come over several lines, and not always in order."""
        known = self._heard.get(model)
        if known is None or queued.time_us >= known[0].time_us:
            self._heard[model] = (queued, asyncio.get_running_loop().time())

    async def read(self, model: str) -> Queued:
        """Asks where nothing was heard lately. Old news, or none, while there is no Redis."""
        loop = asyncio.get_running_loop()
        known = self._heard.get(model)
        if known is not None and loop.time() - known[1] < self._max_age_s:
            return known[0]
        keys = model_keys(model)
        try:
            text = await BACKLOG.run(self._line, (*keys.queues, *keys.tokens))
        except (Unreachable, ResponseError):
            return known[0] if known else Queued(0, _NOTHING, _NOTHING)
        self.hear(model, parse_queued(text))
        return self._heard[model][0]
