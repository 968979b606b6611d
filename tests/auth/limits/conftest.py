"""Both stores of limits, on a clock that is set by hand and a database that is told what to say."""

import time
from collections.abc import AsyncIterator, Callable

import pytest
from hand_clock import HandClock
from redis_server import RedisServer

from auth.calendar import Period
from auth.holder import Holder
from auth.limits.memory import MemoryLimits
from auth.limits.redis import RedisLimits
from transport.redis.connections import Connections, RedisConfig
from transport.redis.events import ignore
from transport.redis.scripts import LineScripts


class Database:
    """What it knows of each budget, by holder's name and period, and what it was asked."""

    def __init__(self) -> None:
        self.used: dict[tuple[str, Period], int] = {}
        self.is_down = False
        self.asked: list[tuple[str, Period]] = []

    async def seed(self, holder: Holder, period: Period) -> int | None:
        self.asked.append((holder.name, period))
        return None if self.is_down else self.used.get((holder.name, period), 0)


@pytest.fixture
def clock() -> HandClock:
    """At noon of a 15th: no period ends soon."""
    return HandClock(1_800_014_400.0)


@pytest.fixture
def database() -> Database:  # type: ignore[override]  # of keys, one directory above
    return Database()


@pytest.fixture
async def make_limits(
    redis: RedisServer, database: Database
) -> AsyncIterator[Callable[..., RedisLimits]]:
    """Makes the RedisLimits of one more gateway; without a clock, by Redis' own."""
    opened: list[Connections] = []

    def make(
        clock: HandClock | None = None, here: Callable[[], float] | None = None
    ) -> RedisLimits:
        connections = Connections(RedisConfig(redis.url), ignore)
        opened.append(connections)
        scripts = LineScripts(connections.unrepeated())
        return RedisLimits(scripts, database.seed, now=clock, here=here or clock or time.time)

    yield make
    for connections in opened:
        await connections.close()


@pytest.fixture(params=["memory", "redis"])
def limits(
    request: pytest.FixtureRequest, clock: HandClock, database: Database
) -> MemoryLimits | RedisLimits:
    if request.param == "memory":
        return MemoryLimits(database.seed, clock)
    limits: RedisLimits = request.getfixturevalue("make_limits")(clock)
    return limits
