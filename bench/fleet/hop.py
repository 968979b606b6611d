"""What Redis adds to a job's way, and to a request's, side by side in interleaved rounds."""

import asyncio
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

from redis import Redis

from bench.fleet.cpu import OTHERS, CpuMeter
from bench.fleet.processes import redis_server
from bench.fleet.results import Command, HopResults, HopRow
from bench.fleet.ways import REDIS, TOKENS, Way, all_ways
from bench.machine import describe_machine
from bench.statistics import latency

_WARM = 3  # first of every turn, not timed
_COMMANDS = ("evalsha", "xreadgroup", "xread", "xtrim", "xclaim")


@dataclass(frozen=True)
class HopEffort:
    rounds: int = 60
    turn: int = 40  # timed, of each way in each round
    pause_s: float = 0.0  # before each; with one, processors and caches have gone to rest


async def measure_hop(effort: HopEffort, tell: Callable[[str], None]) -> HopResults:
    """Raises StartFailed and RequestFailed."""
    machine, date = describe_machine(), datetime.now(UTC).isoformat(timespec="seconds")
    tell("hop: starting Redis, workers, gateway, server")
    async with redis_server() as redis, all_ways(redis) as ways:
        rows = [_Measured(way) for way in ways]
        costs = _CommandCosts(Redis.from_url(redis.url, protocol=2))
        ours = {os.getpid(), *(pid for way in ways for pid in way.pids.values())}
        whole = CpuMeter({"ours": [*ours]})
        for number in range(effort.rounds):
            if number % 10 == 0:
                tell(f"hop: round {number + 1} of {effort.rounds}")
            for measured in random.sample(rows, len(rows)):
                if measured.way.name == REDIS:
                    costs.begin()
                await measured.take_turn(effort)
                if measured.way.name == REDIS:
                    costs.end()
        jobs = effort.rounds * (_WARM + effort.turn)
        return HopResults(
            date=date,
            machine=machine,
            tokens=TOKENS,
            rounds=effort.rounds,
            pause_s=effort.pause_s,
            others_cores=whole.cores()[OTHERS],
            rows=[measured.row() for measured in rows],
            commands=costs.commands(jobs),
        )


@dataclass(eq=False)
class _Measured:
    way: Way
    samples_s: list[float] = field(default_factory=list)
    stages_s: dict[str, list[float]] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    asked: int = 0

    async def take_turn(self, effort: HopEffort) -> None:
        meter = CpuMeter({name: [pid] for name, pid in self.way.pids.items()})
        for number in range(_WARM + effort.turn):
            await asyncio.sleep(effort.pause_s)
            sent_s = time.perf_counter()
            stages = await self.way.ask()
            returned_s = time.perf_counter()
            if number >= _WARM:
                self.samples_s.append(returned_s - sent_s)
                for stage, took_s in stages.items():
                    self.stages_s.setdefault(stage, []).append(took_s)
        self.asked += _WARM + effort.turn
        for name, used_s in meter.used_s().items():
            self.cpu_s[name] = self.cpu_s.get(name, 0.0) + used_s

    def row(self) -> HopRow:
        return HopRow(
            name=self.way.name,
            count=len(self.samples_s),
            latency=latency(self.samples_s),
            stages_ms={name: median(took) * 1000 for name, took in self.stages_s.items()},
            cpu_us={name: used_s / self.asked * 1e6 for name, used_s in self.cpu_s.items()},
        )


class _CommandCosts:
    """What Redis counts between `begin` and `end`."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._calls, self._us = dict.fromkeys(_COMMANDS, 0), dict.fromkeys(_COMMANDS, 0)

    def begin(self) -> None:
        self._count(-1)

    def end(self) -> None:
        self._count(1)

    def commands(self, jobs: int) -> list[Command]:
        """Those that ran."""
        return [
            Command(name, calls / jobs, self._us[name] / calls)
            for name, calls in self._calls.items()
            if calls
        ]

    def _count(self, sign: int) -> None:
        stats = self._redis.info("commandstats")
        for name in _COMMANDS:
            counted = stats.get(f"cmdstat_{name}", {"calls": 0, "usec": 0})
            self._calls[name] += sign * counted["calls"]
            self._us[name] += sign * counted["usec"]
