"""Limits while Redis is away, comes back, or does not answer."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Protocol

import pytest
from faults.proxy import Proxy
from hand_clock import HandClock
from redis_server import RedisServer, free_port, running_redis
from structlog.testing import capture_logs

from auth.calendar import Period
from auth.holder import Holder
from auth.limits.demand import Bucket, Budget, Demand, Slot
from auth.limits.failover import RETRY_S, FailoverLimits
from auth.limits.memory import MemoryLimits
from auth.limits.redis import RedisLimits
from auth.limits.store import RESEED_S
from auth.record import Limits
from transport.redis.connections import Connections, RedisConfig
from transport.redis.events import ignore
from transport.redis.scripts import LineScripts

WaitUntil = Callable[..., Awaitable[None]]

TIMEOUT_S = 0.3
LIMITS = Limits(rpm=600, tpm=6000, max_concurrency=4, daily_tokens=1000)
KEY = Holder("key", "a1b2c3d4e5f6", LIMITS)


class Database(Protocol):
    used: dict[tuple[str, Period], int]
    asked: list[tuple[str, Period]]

    async def seed(self, holder: Holder, period: Period) -> int | None: ...


class Gateway:
    """The limits of one gateway, and what it counts of their failures."""

    def __init__(self, url: str, database: Database, clock: HandClock) -> None:
        self.connections = Connections(RedisConfig(url, connect_timeout_s=0.2), ignore)
        scripts = LineScripts(self.connections.unrepeated(), TIMEOUT_S)
        self.redis = RedisLimits(scripts, database.seed)
        self.share = MemoryLimits(database.seed, clock, share_of=lambda: self.redis.gateways)
        self.errors = 0
        self.limits = FailoverLimits(self.redis, self.share, self._count)

    def _count(self) -> None:
        self.errors += 1


def requests(cost: int) -> Demand:
    return Demand(buckets=(Bucket(KEY, "requests", cost),))


def slot(request_id: str) -> Demand:
    return Demand(slots=(Slot(KEY, request_id, 600.0),))


def budget(cost: int) -> Demand:
    return Demand(budgets=(Budget(KEY, "daily", cost),))


@pytest.fixture(scope="module")
def server_of_module() -> Iterator[RedisServer]:
    with running_redis(port=free_port()) as server:
        yield server


@pytest.fixture
def server(server_of_module: RedisServer) -> RedisServer:
    server_of_module.call("FLUSHALL")
    return server_of_module


@pytest.fixture
async def proxy(server: RedisServer) -> AsyncIterator[Proxy]:
    proxy = Proxy(server.port)
    await proxy.start()
    yield proxy
    await proxy.close()


@pytest.fixture
async def gateway(proxy: Proxy, database: Database, clock: HandClock) -> AsyncIterator[Gateway]:
    gateway = Gateway(proxy.url, database, clock)
    yield gateway
    await gateway.connections.close()


async def back_in_redis(gateway: Gateway) -> None:
    async with asyncio.timeout(10):
        while gateway.limits.local:
            await gateway.limits.take(requests(0))
            await asyncio.sleep(0.01)


async def test_a_killed_redis_is_replaced_by_the_local_share_and_taken_up_again(
    server: RedisServer, gateway: Gateway
) -> None:
    assert (await gateway.limits.take(requests(100))).by is gateway.limits
    assert not gateway.limits.local
    gateway.redis.gateways = 3
    server.kill()
    with capture_logs() as logs:
        try:
            standing = await gateway.limits.take(requests(50))
            assert standing.refusal is None
            assert standing.by is gateway.share
            assert standing.buckets[0].limit == 200
            assert gateway.limits.local
            assert gateway.errors == 1
            granted = 0
            for _ in range(300):
                granted += (await gateway.limits.take(requests(1))).refusal is None
            assert granted == 150
        finally:
            server.start()
        await back_in_redis(gateway)
    assert [entry["event"] for entry in logs] == ["limits_became_local", "limits_are_shared_again"]
    standing = await gateway.limits.take(requests(1))
    assert (standing.by, standing.buckets[0].limit) == (gateway.limits, 600)


async def test_a_redis_that_does_not_answer_is_waited_for_once_a_second(
    proxy: Proxy, gateway: Gateway
) -> None:
    await gateway.limits.take(requests(0))
    proxy.black_hole()
    waits_s: list[float] = []
    started_s = time.monotonic()

    async def take_for(seconds: float) -> None:
        while time.monotonic() < started_s + seconds:
            asked_s = time.monotonic()
            await gateway.limits.take(requests(1))
            waits_s.append(time.monotonic() - asked_s)
            await asyncio.sleep(0.002)

    await asyncio.gather(*[take_for(3.5) for _ in range(10)])
    assert max(waits_s) < TIMEOUT_S + 1.0  # a busy host is no second wait
    # Each that waited in vain is an error: the ten that were under way at first, then one each
    # RETRY_S after the last gave up.
    assert 10 + 1 <= gateway.errors <= 10 + 3.5 / RETRY_S
    assert len(waits_s) > 1000
    proxy.pass_on()
    await back_in_redis(gateway)


async def test_what_was_granted_is_given_back_to_the_store_that_granted_it(
    server: RedisServer, proxy: Proxy, gateway: Gateway, wait_until: WaitUntil
) -> None:
    lease, use = (f"florilege:{of}:key:{KEY.name}" for of in ("lease", "use"))
    shared = await gateway.limits.take(Demand(slots=slot("r").slots, budgets=budget(300).budgets))
    use += ":" + shared.taken.budgets[0].receipt.partition(":")[0]
    proxy.black_hole()
    # This one Redis hears of when nobody waits for it any more: its slot must not stay either.
    assert (await gateway.limits.take(slot("late"))).by is gateway.share
    local = await gateway.limits.take(Demand(requests(600).buckets, slot("l").slots))
    assert local.by is gateway.share
    assert (await gateway.limits.take(requests(1))).refusal is not None
    await local.by.give_back(local.taken)
    assert (await gateway.limits.take(requests(600))).refusal is None
    # Redis is told later of what it granted, and loses nothing by it.
    await shared.by.give_back(shared.taken)
    assert server.call("ZCARD", lease) == "1"
    proxy.pass_on()
    running = asyncio.create_task(gateway.limits.run())
    await wait_until(lambda: server.call("ZCARD", lease) == "0")
    await wait_until(lambda: server.call("HGET", use, "used") == "0")
    running.cancel()
    assert not gateway.limits.local
    assert (await gateway.limits.take(requests(0))).buckets[0].remaining == 600


async def test_giving_back_waits_for_no_redis_that_is_known_to_be_away(
    proxy: Proxy, gateway: Gateway
) -> None:
    shared = [await gateway.limits.take(slot(f"r{i}")) for i in range(4)]
    proxy.black_hole()
    await gateway.limits.take(requests(1))
    started_s = time.monotonic()
    for standing in shared:
        await standing.by.give_back(standing.taken)
    assert time.monotonic() - started_s < TIMEOUT_S / 2


async def test_a_share_is_at_least_one_and_lets_in_what_fits_the_whole(
    database: Database, clock: HandClock
) -> None:
    share = MemoryLimits(database.seed, clock, share_of=lambda: 1000)
    assert (await share.take(requests(1))).refusal is None
    refusal = (await share.take(requests(1))).refusal
    assert refusal is not None
    assert (refusal.wait_s, refusal.never) == (60.0, False)
    assert (await share.take(slot("a"))).refusal is None
    assert (await share.take(slot("b"))).refusal is not None
    # One request larger than the share's burst: alone, and then for as long as it is worth.
    clock.now += 60.0
    assert (await share.take(requests(5))).refusal is None
    refusal = (await share.take(requests(1))).refusal
    assert refusal is not None
    assert refusal.wait_s == 300.0
    refusal = (await share.take(requests(601))).refusal
    assert refusal is not None
    assert refusal.never


async def test_budgets_of_a_share_learn_of_other_gateways_once_a_minute(
    database: Database, clock: HandClock
) -> None:
    share = MemoryLimits(database.seed, clock, share_of=lambda: 4)
    assert (await share.take(budget(100))).budgets_used == (100,)
    database.used[KEY.name, "daily"] = 995
    clock.now += RESEED_S - 1
    assert (await share.take(budget(100))).budgets_used == (200,)
    clock.now += 1.0
    assert (await share.take(budget(0))).budgets_used == (995,)
    assert (await share.take(budget(6))).refusal is not None
    assert len(database.asked) == 2


async def test_a_slow_database_is_no_failure_of_redis(
    server: RedisServer, clock: HandClock, wait_until: WaitUntil
) -> None:
    class Slow:
        async def seed(self, holder: Holder, period: Period) -> int | None:
            await asyncio.Event().wait()
            return None

    gateway = Gateway(server.url, Slow(), clock)  # type: ignore[arg-type]
    started_s = time.monotonic()
    standing = await gateway.limits.take(budget(10))
    assert standing.by is gateway.limits
    assert time.monotonic() - started_s < 2.0
    assert not gateway.errors
    assert replace(standing.taken.budgets[0], receipt="") == budget(10).budgets[0]
    await gateway.connections.close()


async def test_a_cost_whose_return_may_have_been_heard_is_not_returned_twice(
    server: RedisServer, proxy: Proxy, gateway: Gateway, wait_until: WaitUntil
) -> None:
    lease, use = (f"florilege:{of}:key:{KEY.name}" for of in ("lease", "use"))
    await gateway.limits.take(budget(500))
    shared = await gateway.limits.take(Demand(slots=slot("r").slots, budgets=budget(300).budgets))
    use += ":" + shared.taken.budgets[0].receipt.partition(":")[0]
    proxy.black_hole()
    await shared.by.give_back(shared.taken)  # on its way when its wait ends
    assert gateway.limits.local
    assert gateway.errors == 1
    proxy.pass_on()
    running = asyncio.create_task(gateway.limits.run())
    await wait_until(lambda: server.call("ZCARD", lease) == "0")
    await wait_until(lambda: not gateway.limits.local and not gateway.limits._owed)
    running.cancel()
    assert int(server.call("HGET", use, "used")) in (500, 800)  # once, or not at all


class WrittenDown:
    """What was granted, as the database knows it when it was answered and recorded."""

    def __init__(self, gateway: Gateway, database: Database) -> None:
        self._gateway = gateway
        self._database = database

    async def use(self, cost: int) -> bool:
        """Whether it was granted."""
        if (await self._gateway.limits.take(budget(cost))).refusal is not None:
            return False
        used = self._database.used
        used[KEY.name, "daily"] = used.get((KEY.name, "daily"), 0) + cost
        return True


async def go_away(proxy: Proxy, gateway: Gateway) -> None:
    proxy.black_hole()
    await gateway.limits.take(requests(1))
    assert gateway.limits.local


async def test_what_the_share_granted_of_a_budget_is_not_granted_again_by_redis(
    proxy: Proxy, gateway: Gateway, database: Database
) -> None:
    written = WrittenDown(gateway, database)
    assert await written.use(100)
    await go_away(proxy, gateway)
    assert [await written.use(100) for _ in range(10)] == [True] * 9 + [False]
    proxy.pass_on()
    await back_in_redis(gateway)
    standing = await gateway.limits.take(budget(0))
    assert standing.by is gateway.limits
    assert standing.budgets_used == (1000,)
    assert standing.refusal is not None


async def test_the_call_that_finds_redis_again_is_refused_what_the_share_has_granted(
    proxy: Proxy, gateway: Gateway, database: Database, wait_until: WaitUntil
) -> None:
    written = WrittenDown(gateway, database)
    assert await written.use(100)
    await go_away(proxy, gateway)
    assert await written.use(800)
    proxy.pass_on()
    at_once = [False] * 20
    while gateway.limits.local:
        at_once = await asyncio.gather(*[written.use(100) for _ in range(20)])
        await asyncio.sleep(0.01)
    assert database.used[KEY.name, "daily"] == 1000
    assert not any(at_once[2:])


async def test_a_redis_that_was_emptied_counts_once_what_the_share_granted(
    server: RedisServer, proxy: Proxy, gateway: Gateway, database: Database
) -> None:
    written = WrittenDown(gateway, database)
    assert await written.use(100)
    await go_away(proxy, gateway)
    assert await written.use(300)
    server.call("FLUSHALL")
    proxy.pass_on()
    await back_in_redis(gateway)
    assert (await gateway.limits.take(budget(0))).budgets_used == (400,)
    assert await written.use(600)
    assert not await written.use(1)


async def test_another_gateway_hears_of_what_a_share_granted(
    server: RedisServer,
    proxy: Proxy,
    gateway: Gateway,
    database: Database,
    clock: HandClock,
    wait_until: WaitUntil,
) -> None:
    other = Gateway(server.url, database, clock)
    written, elsewhere = WrittenDown(gateway, database), WrittenDown(other, database)
    assert await elsewhere.use(100)
    await go_away(proxy, gateway)
    assert await written.use(800)
    proxy.pass_on()
    running = asyncio.create_task(gateway.limits.run())
    await wait_until(lambda: not gateway.limits.local)
    running.cancel()
    assert not await elsewhere.use(200)
    assert await elsewhere.use(100)
    await other.connections.close()


async def test_a_share_begins_with_what_redis_has_granted_since_the_last(
    proxy: Proxy, gateway: Gateway, database: Database
) -> None:
    written = WrittenDown(gateway, database)
    await go_away(proxy, gateway)
    assert await written.use(100)
    proxy.pass_on()
    await back_in_redis(gateway)
    assert await written.use(800)
    await go_away(proxy, gateway)
    assert not await written.use(200)
    assert await written.use(100)


async def test_while_the_database_is_away_too_the_share_is_told_of_later(
    proxy: Proxy, gateway: Gateway, database: Database
) -> None:
    written = WrittenDown(gateway, database)
    assert await written.use(100)
    await go_away(proxy, gateway)
    assert await written.use(800)
    proxy.pass_on()
    database.is_down = True
    await back_in_redis(gateway)
    assert (await gateway.limits.take(budget(0))).budgets_used == (100,)
    database.is_down = False
    await gateway.redis.ask_again(budget(0).budgets)  # as Redis does by itself, a minute later
    assert (await gateway.limits.take(budget(0))).budgets_used == (900,)


async def test_rates_that_are_given_back_late_are_not_handed_in(
    server: RedisServer, proxy: Proxy, gateway: Gateway, wait_until: WaitUntil
) -> None:
    lease = f"florilege:lease:key:{KEY.name}"
    demand = Demand(requests(600).buckets, slot("r").slots)
    shared = await gateway.limits.take(demand)
    await go_away(proxy, gateway)
    await shared.by.give_back(shared.taken)
    proxy.pass_on()
    running = asyncio.create_task(gateway.limits.run())
    await wait_until(lambda: server.call("ZCARD", lease) == "0")
    running.cancel()
    # The debt has flowed off for some seconds: to return it as well would make the rate larger.
    assert (await gateway.limits.take(requests(0))).buckets[0].remaining < 300
