"""What only limits in Redis promise: one count for all gateways, seeded anew when it is lost."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

import pytest
from hand_clock import HandClock
from redis_server import RedisServer

from auth.calendar import Period
from auth.holder import Holder
from auth.limits.demand import Bucket, Budget, Demand, Slot
from auth.limits.redis import GATEWAYS, RedisLimits
from auth.limits.store import RESEED_S
from auth.record import Limits

MakeLimits = Callable[..., RedisLimits]


class Database(Protocol):
    used: dict[tuple[str, Period], int]
    asked: list[tuple[str, Period]]


LIMITS = Limits(rpm=600, tpm=6000, max_concurrency=2, daily_tokens=1000, monthly_tokens=5000)
KEY = Holder("key", "a1b2c3d4e5f6", LIMITS)
PROJECT = Holder("project", "a: 100 % name", LIMITS)


def budget(cost: int) -> Demand:
    return Demand(budgets=(Budget(KEY, "daily", cost),))


async def test_two_gateways_count_together_by_the_clock_of_redis(make_limits: MakeLimits) -> None:
    gateways = [make_limits(), make_limits()]
    bucket = Bucket(Holder("key", "k", Limits(rpm=6000, burst_s=0.5)), "requests", 1)
    started_s = time.monotonic()
    granted = 0

    async def hammer(limits: RedisLimits) -> None:
        nonlocal granted
        while time.monotonic() < started_s + 1.0:
            standing = await limits.take(Demand(buckets=(bucket,)))
            granted += standing.refusal is None

    await asyncio.gather(*[hammer(limits) for limits in gateways for _ in range(4)])
    elapsed_s = time.monotonic() - started_s
    # 50 at once and 100 a second: not one above, and not one below but by the last moment.
    assert 50 + 100 * 1.0 - 5 <= granted <= 50 + 100 * elapsed_s


async def test_slots_are_bounded_over_gateways(make_limits: MakeLimits) -> None:
    gateways = [make_limits(), make_limits()]
    demands = [Demand(slots=(Slot(KEY, f"r{i}", 60.0),)) for i in range(10)]
    standings = await asyncio.gather(
        *[gateways[i % 2].take(demand) for i, demand in enumerate(demands)]
    )
    assert sum(standing.refusal is None for standing in standings) == 2


async def test_leases_of_a_gateway_that_died_end_by_themselves(
    make_limits: MakeLimits, redis: RedisServer
) -> None:
    dead, alive = make_limits(), make_limits()
    for i in range(2):
        await dead.take(Demand(slots=(Slot(KEY, f"dead{i}", 0.2),)))
    last = Demand(slots=(Slot(KEY, "r", 60.0),))
    async with asyncio.timeout(5):
        while (await alive.take(last)).refusal is not None:
            await asyncio.sleep(0.001)
    held = redis.call("ZRANGE", f"florilege:lease:key:{KEY.name}", "0", "-1").split("\n")
    assert "r" in held
    assert "dead0" not in held


async def test_a_budget_is_seeded_once_for_all_gateways(
    make_limits: MakeLimits, database: Database
) -> None:
    database.used[KEY.name, "daily"] = 400
    gateways = [make_limits(), make_limits()]
    assert (await gateways[0].take(budget(100))).budgets_used == (500,)
    database.used[KEY.name, "daily"] = 450
    assert (await gateways[1].take(budget(100))).budgets_used == (600,)
    assert len(database.asked) == 1


async def test_a_budget_is_seeded_anew_when_redis_came_back_empty(
    make_limits: MakeLimits, database: Database, redis: RedisServer
) -> None:
    limits = make_limits()
    first = await limits.take(budget(300))
    database.used[KEY.name, "daily"] = 950  # what gateways have written down since
    redis.call("FLUSHALL")
    redis.call("SCRIPT", "FLUSH")
    assert (await limits.take(budget(0))).budgets_used == (950,)
    # Of another count: nobody knows whether it is in what the database says.
    await limits.give_back(first.taken)
    assert (await limits.take(budget(0))).budgets_used == (950,)
    refusal = (await limits.take(budget(51))).refusal
    assert refusal is not None
    assert refusal.used == 950


@pytest.mark.parametrize(
    ("of_redis", "of_host"),
    [
        ("2027-01-16T00:00:01", "2027-01-15T23:59:56"),
        ("2027-01-15T23:59:56", "2027-01-16T00:00:01"),
    ],
)
async def test_the_day_is_that_of_redis_and_no_other_day_seeds_it(
    make_limits: MakeLimits, database: Database, of_redis: str, of_host: str
) -> None:
    clock, here = HandClock(_epoch_s(of_redis)), HandClock(_epoch_s(of_host))
    limits = make_limits(clock, here)
    database.used[KEY.name, "daily"] = 1000  # of the day by this host's clock, which is another
    standing = await limits.take(budget(10))
    assert standing.budgets_used == (10,)
    assert standing.taken.budgets[0].receipt.startswith(of_redis[:10].replace("-", ""))
    clock.now += 60.0
    here.now += 60.0
    database.used[KEY.name, "daily"] = 990
    if of_redis > of_host:  # both are now in the day that was counted from 0
        assert (await limits.take(budget(0))).budgets_used == (990,)
    else:
        assert (await limits.take(budget(1))).budgets_used == (991,)


def _epoch_s(moment: str) -> float:
    return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()


async def test_every_key_has_a_time_to_live_and_a_name_that_cannot_be_mistaken(
    make_limits: MakeLimits, redis: RedisServer
) -> None:
    limits = make_limits()
    for holder in (KEY, PROJECT):
        await limits.take(
            Demand(
                buckets=(Bucket(holder, "requests", 1), Bucket(holder, "tokens", 10)),
                slots=(Slot(holder, "r", 60.0),),
                budgets=(Budget(holder, "daily", 10), Budget(holder, "monthly", 10)),
            )
        )
    await limits.heartbeat()
    now = datetime.now(UTC)
    of_holders = [
        name
        for of in (f"key:{KEY.name}", "project:a%3A%20100%20%25%20name")
        for name in (
            *(f"florilege:rl:{of}:r", f"florilege:rl:{of}:t", f"florilege:lease:{of}"),
            *(f"florilege:use:{of}:{now:%Y%m%d}", f"florilege:use:{of}:{now:%Y%m}"),
        )
    ]
    keys = redis.call("KEYS", "*").split("\n")
    assert set(keys) == {GATEWAYS, *of_holders}
    for key in keys:
        ttl_s = int(redis.call("TTL", key))
        assert 0 < ttl_s <= (33 * 86_400 if ":use:" in key else 900)
        if ":use:" in key:
            assert ttl_s > 86_400


async def test_a_call_is_one_command_but_for_the_first_of_a_budget(
    make_limits: MakeLimits, redis: RedisServer
) -> None:
    limits = make_limits()
    demand = Demand(
        buckets=(Bucket(KEY, "requests", 1), Bucket(PROJECT, "requests", 1)),
        slots=(Slot(KEY, "r", 60.0),),
        budgets=(Budget(KEY, "daily", 0), Budget(PROJECT, "monthly", 0)),
    )
    await limits.take(demand)
    redis.call("CONFIG", "RESETSTAT")
    for _ in range(5):
        await limits.take(demand)
    stats = redis.call("INFO", "commandstats")
    assert "cmdstat_evalsha:calls=5," in stats
    assert "cmdstat_eval:" not in stats


async def test_gateways_that_live_are_counted(make_limits: MakeLimits, clock: HandClock) -> None:
    first, second = make_limits(clock), make_limits(clock)
    assert first.gateways == 1
    await first.heartbeat()
    await second.heartbeat()
    await first.heartbeat()
    assert (first.gateways, second.gateways) == (2, 2)
    clock.now += 20.0
    await first.heartbeat()
    assert first.gateways == 1
    clock.now -= 3600.0  # nobody lives in what is now the future
    await second.heartbeat()
    assert second.gateways == 1


async def test_a_budget_is_asked_for_again_each_minute_whatever_was_told(
    make_limits: MakeLimits, clock: HandClock, database: Database
) -> None:
    """Another gateway that does not reach Redis counts by the database alone."""
    limits = make_limits(clock)
    demand = Demand(budgets=(Budget(KEY, "daily", 10),))
    assert (await limits.take(demand)).budgets_used == (10,)
    database.used[KEY.name, "daily"] = 700
    clock.now += RESEED_S - 1
    assert (await limits.take(demand)).budgets_used == (20,)
    clock.now += 1
    assert (await limits.take(demand)).budgets_used == (710,)
    assert (await limits.take(demand)).budgets_used == (720,)
    assert len(database.asked) == 2
