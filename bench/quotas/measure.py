"""A hundred keys, most of which ask for ten times what they may, over two gateways."""

import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from auth.database import sqlite_url
from auth.pepper import Peppers, create_peppers
from auth.record import Limits, NewKey
from auth.store import KeyStore
from bench.client import RequestFailed
from bench.fleet.cpu import CpuMeter
from bench.fleet.processes import GATEWAY, WORKER, Started, florilege, redis_server
from bench.machine import describe_machine
from bench.quotas.flood import Caller, Sender, Tally
from bench.quotas.results import Cost, KeyCount, QuotaResults, Situation
from bench.statistics import latency

TOKENS = 16  # a request
_WARM = 200  # requests, not timed
_PLENTY = 1_000_000  # a limit that nobody meets
_UNANSWERED = "florilege_ratelimit_backend_errors_total"
_HALF = 0.5  # of their limits is what well-behaved keys ask for

REST, UNLIMITED, LIMITED, REST_AGAIN = (
    *("nothing else", "others, without limits"),
    *("the others flood their limits", "nothing else, afterwards"),
)


@dataclass(frozen=True)
class QuotaEffort:
    """`a_minute`: requests that a flooding key may make; a well-behaved one may make five times
    as many, and asks for half of them.
    """

    flooding: int = 90  # two of three meet a limit of tokens, the third one of requests
    well_behaved: int = 10
    a_minute: int = 30
    burst_s: float = 60.0
    times: float = 10.0
    flood_s: float = 120.0
    window_s: float = 60.0  # at the end of the flood, when no burst is left
    rest_s: float = 30.0  # each of the other situations
    rounds: int = 300  # one request of each kind in each
    gateways: int = 2
    workers: int = 1


async def measure_quotas(effort: QuotaEffort, tell: Callable[[str], None]) -> QuotaResults:
    """Raises StartFailed and RequestFailed."""
    results = QuotaResults(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=describe_machine(),
        gateways=effort.gateways,
        workers=effort.workers,
        tokens=TOKENS,
        times=effort.times,
    )
    tell("quotas: making keys, starting Redis, gateways, worker")
    async with _pool(effort) as pool:
        for _ in range(_WARM):
            await pool.sender.send(pool.unlimited[0].key, random.randrange(_WARM))
        good = pool.well_behaved
        for name, others, seconds in (
            (REST, [], effort.rest_s),
            (UNLIMITED, pool.unlimited, effort.rest_s),
            (LIMITED, pool.flooding, effort.flood_s),
            (REST_AGAIN, [], effort.rest_s),
        ):
            tell(f"quotas: {len(good)} well-behaved keys, {name}: {seconds:.0f} s")
            before, meter = await pool.unanswered(), pool.meter()
            tallies = await pool.sender.flood([*others, *good], seconds)
            cores, unanswered = meter.cores(), await pool.unanswered() - before
            told = _situation(name, seconds, tallies, tallies[len(others) :])
            results.situations.append(replace(told, cores=cores, limits_unanswered=unanswered))
            if name == LIMITED:
                results.keys.extend(_count(pool, effort, tally) for tally in tallies)
        tell(f"quotas: what limits cost: {effort.rounds} rounds")
        results.costs.extend(await _measure_costs(pool, effort))
    return results


@dataclass(frozen=True, eq=False)
class _Pool:
    """Keys by what they do, and those who answer them."""

    flooding: list[Caller]
    unlimited: list[Caller]  # as many, that ask for as much
    well_behaved: list[Caller]
    priced: dict[str, Caller]  # by their limits
    limits: dict[str, Limits]  # by the names of keys
    sender: Sender
    processes: dict[str, list[Started]]

    def meter(self) -> CpuMeter:
        pids = {name: [p.pid for p in started] for name, started in self.processes.items()}
        return CpuMeter(pids | {"load": [os.getpid()]})

    async def unanswered(self) -> int:
        """Times that gateways had no answer from Redis for their limits."""
        return sum(
            [
                int(await self.sender.metric(gateway.admin_url, _UNANSWERED))
                for gateway in self.processes["gateways"]
            ]
        )


@asynccontextmanager
async def _pool(effort: QuotaEffort) -> AsyncIterator[_Pool]:
    """Keys first, so that gateways know them when they start."""
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="quotas-"))
        data_dir = Path(directory)
        maker = _Maker(KeyStore(sqlite_url(data_dir / "florilege.db")))
        stack.push_async_callback(maker.store.close)
        await maker.store.prepare()
        maker.peppers = create_peppers(data_dir / "pepper")
        asks = effort.times * effort.a_minute / 60
        flooding = [
            await maker.make(f"flooding-{number}", asks, _flooded(effort, number))
            for number in range(effort.flooding)
        ]
        unlimited = [
            await maker.make(f"unlimited-{number}", asks, Limits())
            for number in range(max(1, effort.flooding))
        ]
        may = 5 * effort.a_minute
        allowed = Limits(rpm=may, tpm=may * TOKENS, burst_s=effort.burst_s)
        well_behaved = [
            await maker.make(f"well-behaved-{number}", _HALF * may / 60, allowed)
            for number in range(effort.well_behaved)
        ]
        priced = {name: await maker.make(name, 1.0, limits) for name, limits in _PRICED.items()}
        redis = await stack.enter_async_context(redis_server())
        device = ("--self-test", "off", "--step-s", "0.001")
        workers = [
            await stack.enter_async_context(florilege((*WORKER, *device), redis.url))
            for _ in range(effort.workers)
        ]
        own = (*GATEWAY, "--data-dir", directory)
        gateways = [
            await stack.enter_async_context(florilege(own, redis.url))
            for _ in range(effort.gateways)
        ]
        sender = Sender([gateway.url for gateway in gateways], TOKENS)
        processes = {"gateways": gateways, "redis": [redis], "workers": workers}
        yield _Pool(
            flooding=flooding,
            unlimited=unlimited,
            well_behaved=well_behaved,
            priced=priced,
            limits=maker.limits,
            sender=await stack.enter_async_context(sender),
            processes=processes,
        )


_ALL_OF_THEM = Limits(
    rpm=_PLENTY,
    tpm=_PLENTY * TOKENS,
    max_concurrency=_PLENTY,
    daily_tokens=_PLENTY * TOKENS,
    monthly_tokens=_PLENTY * TOKENS,
)
_NONE, _REFUSED = "none", "rpm, refused"
_PRICED = {
    _NONE: Limits(),
    "rpm, tpm": Limits(rpm=_PLENTY, tpm=_PLENTY * TOKENS),
    "rpm, tpm, concurrency, daily, monthly": _ALL_OF_THEM,
    _REFUSED: Limits(rpm=1),
}


class _Maker:
    """Makes keys and remembers their limits."""

    def __init__(self, store: KeyStore) -> None:
        self.store = store
        self.peppers = Peppers.generate()
        self.limits: dict[str, Limits] = {}

    async def make(self, name: str, per_s: float, limits: Limits) -> Caller:
        key, _ = await self.store.create(NewKey(name=name, limits=limits), self.peppers)
        self.limits[name] = limits
        return Caller(name, key, per_s)


def _flooded(effort: QuotaEffort, number: int) -> Limits:
    if number % 3 == 2:
        return Limits(rpm=effort.a_minute, burst_s=effort.burst_s)
    return Limits(tpm=effort.a_minute * TOKENS, burst_s=effort.burst_s)


def _count(pool: _Pool, effort: QuotaEffort, tally: Tally) -> KeyCount:
    limits, sent = pool.limits[tally.caller.name], tally.sent
    rate, each = (limits.rpm, 1) if limits.rpm else (limits.tpm or 0, TOKENS)
    accepted = tally.of(200)
    first_s, last_s = sent[0].sent_s, sent[-1].sent_s
    answered_s = [request.answered_s for request in sent]
    since_s = effort.flood_s - effort.window_s
    return KeyCount(
        name=tally.caller.name,
        unit="requests" if each == 1 else "tokens",
        a_minute=rate,
        burst=round(rate * effort.burst_s / 60),
        well_behaved=tally.caller in pool.well_behaved,
        offered=len(sent),
        refused=len(tally.of(429)),
        failed=tally.failed,
        accepted=len(accepted) * each,
        span_s=last_s - first_s,
        unsure_s=min(answered_s) - first_s + max(answered_s) - last_s,
        late_a_minute=_a_minute([r.sent_s for r in accepted if r.sent_s >= since_s]) * each,
        window_s=effort.window_s,
    )


def _a_minute(moments_s: Sequence[float]) -> float:
    """From the first to the last: how many fall into a window depends on where it begins."""
    if len(moments_s) < 2:
        return 0.0
    return (len(moments_s) - 1) / (moments_s[-1] - moments_s[0]) * 60


def _situation(
    name: str,
    seconds: float,
    tallies: Sequence[Tally],
    ours: Sequence[Tally],
) -> Situation:
    """`ours`: of the well-behaved. Raises RequestFailed where none of theirs was answered."""
    everything = [sent for tally in tallies for sent in tally.sent]
    answered_s = [sent.answered_s - sent.due_s for tally in ours for sent in tally.of(200)]
    if not answered_s:
        raise RequestFailed(f"{name}: no request of a well-behaved key was answered")
    lags_s = [sent.sent_s - sent.due_s for sent in everything]
    return Situation(
        name=name,
        seconds=seconds,
        offered_per_s=len(everything) / seconds,
        answered_per_s=sum(len(tally.of(200)) for tally in tallies) / seconds,
        count=sum(len(tally.sent) for tally in ours),
        refused=sum(len(tally.of(429)) for tally in ours),
        failed=sum(tally.failed for tally in ours),
        latency=latency(answered_s),
        lag_p99_ms=float(np.percentile(lags_s, 99)) * 1000,
        limits_unanswered=0,
        cores={},
    )


async def _measure_costs(pool: _Pool, effort: QuotaEffort) -> list[Cost]:
    """Raises RequestFailed where an answer is not the one to be timed."""
    took_s: dict[str, list[float]] = {name: [] for name in pool.priced}
    await pool.sender.send(pool.priced[_REFUSED].key, 0)  # its one request
    for number in range(effort.rounds):
        for name in random.sample(list(pool.priced), len(pool.priced)):
            sent_s = time.perf_counter()
            # All to one gateway, or those of even places would not compare with the others.
            status = await pool.sender.send(pool.priced[name].key, number * len(pool.sender.urls))
            took_s[name].append(time.perf_counter() - sent_s)
            wanted = 429 if name == _REFUSED else 200
            if status != wanted and not (name == _REFUSED and status == 200):
                raise RequestFailed(f"a key with limits {name}: {status}, not {wanted}")
    return [Cost(name, len(samples), latency(samples)) for name, samples in took_s.items()]
