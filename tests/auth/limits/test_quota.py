"""The limits of a request, from begin to settle."""

import asyncio
from dataclasses import replace
from typing import Protocol

import pytest
from hand_clock import HandClock

from auth.calendar import Period
from auth.holder import Holder
from auth.limits.demand import Demand
from auth.limits.exceeded import LimitExceeded
from auth.limits.quota import UNLIMITED, Quotas
from auth.limits.standing import BucketStanding, Standing
from auth.limits.store import LimitStore
from auth.principal import ANONYMOUS, Principal
from auth.record import Limits

KEY = Holder("key", "a1b2c3d4e5f6", Limits(rpm=60, tpm=600, max_concurrency=2))
PROJECT = Holder("project", "p", Limits(rpm=100, tpm=300, daily_tokens=400))


class Database(Protocol):
    used: dict[tuple[str, Period], int]


class Watched:
    """A store that says what it is asked, and can be held up."""

    def __init__(self, store: LimitStore) -> None:
        self.store = store
        self.asked: list[Demand] = []
        self.given_back: list[Demand] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def take(self, demand: Demand) -> Standing:
        self.asked.append(demand)
        await self.may_answer.wait()
        return replace(await self.store.take(demand), by=self)

    async def give_back(self, taken: Demand) -> None:
        self.given_back.append(taken)
        await self.store.give_back(taken)


@pytest.fixture
def store(limits: LimitStore) -> Watched:
    return Watched(limits)


@pytest.fixture
def quotas(store: Watched) -> Quotas:
    return Quotas(store)


def caller(*holders: Holder) -> Principal:
    return replace(ANONYMOUS, kid="a1b2c3d4e5f6", holders=holders)


async def refusal(quotas: Quotas, principal: Principal, request_id: str) -> LimitExceeded:
    with pytest.raises(LimitExceeded) as refused:
        await quotas.begin(principal, request_id, 60.0)
    return refused.value


async def test_a_caller_without_limits_asks_the_store_nothing(
    quotas: Quotas, store: Watched
) -> None:
    allowance = await quotas.begin(ANONYMOUS, "r", 60.0)
    await allowance.charge(10**9)
    await allowance.settle(kept=False)
    assert (allowance.requests, allowance.tokens) == (None, None)
    assert not store.asked
    assert not store.given_back


def test_unlimited_serves_every_event_loop() -> None:
    async def use() -> None:
        await UNLIMITED.charge(5)
        await UNLIMITED.settle(kept=False)

    asyncio.run(use())
    asyncio.run(use())


async def test_headers_know_the_tightest_of_key_and_project(quotas: Quotas) -> None:
    allowance = await quotas.begin(caller(KEY, PROJECT), "r", 60.0)
    assert allowance.requests == BucketStanding(limit=60, remaining=59, reset_s=1.0)
    assert allowance.tokens == BucketStanding(limit=300, remaining=300, reset_s=0.0)
    await allowance.charge(30)
    assert allowance.tokens == BucketStanding(limit=300, remaining=270, reset_s=6.0)
    assert allowance.requests == BucketStanding(limit=60, remaining=59, reset_s=1.0)


async def test_begin_and_charge_are_one_call_each(quotas: Quotas, store: Watched) -> None:
    allowance = await quotas.begin(caller(KEY, PROJECT), "r", 60.0)
    await allowance.charge(30)
    assert len(store.asked) == 2
    await allowance.settle(kept=True)
    assert len(store.given_back) == 1  # its slot
    allowance = await quotas.begin(caller(PROJECT), "r", 60.0)
    await allowance.settle(kept=True)
    assert len(store.given_back) == 1


async def test_look_tells_what_is_left_and_counts_nothing(quotas: Quotas, store: Watched) -> None:
    spent = Holder("project", "p", Limits(rpm=1, tpm=300, max_concurrency=1, daily_tokens=1))
    running = await quotas.begin(caller(KEY, spent), "r", 60.0)
    await running.charge(1)
    for _ in range(3):  # refused of the rate, the slots and the budget alike
        seen = await quotas.look(caller(KEY, spent))
        assert seen.requests == BucketStanding(limit=1, remaining=0, reset_s=60.0)
        assert seen.tokens == BucketStanding(limit=300, remaining=299, reset_s=0.2)
    assert len(store.asked) == 2 + 3


async def test_look_at_no_rates_asks_the_store_nothing(quotas: Quotas, store: Watched) -> None:
    slots = Holder("key", "k", Limits(max_concurrency=1, daily_tokens=1))
    for principal in (ANONYMOUS, caller(slots)):
        seen = await quotas.look(principal)
        assert (seen.requests, seen.tokens) == (None, None)
    assert not store.asked


async def test_requests_a_minute(quotas: Quotas) -> None:
    slow = Holder("key", "k", Limits(rpm=2))
    for i in range(2):
        await quotas.begin(caller(slow), f"r{i}", 60.0)
    exceeded = await refusal(quotas, caller(slow), "r")
    assert (exceeded.limit, exceeded.holder_kind) == ("rpm", "key")
    assert (exceeded.bound, exceeded.used, exceeded.requested) == (2, 2, 1)
    assert (exceeded.wait_s, exceeded.never, exceeded.resets_at) == (30.0, False, None)
    assert exceeded.requests == BucketStanding(limit=2, remaining=0, reset_s=60.0)
    assert str(exceeded) == "rpm of the key: limit 2, used 2, requested 1"


async def test_tokens_a_minute(quotas: Quotas) -> None:
    allowance = await quotas.begin(caller(KEY, PROJECT), "r", 60.0)
    await allowance.charge(200)
    allowance = await quotas.begin(caller(KEY, PROJECT), "s", 60.0)
    with pytest.raises(LimitExceeded) as refused:
        await allowance.charge(150)
    exceeded = refused.value
    assert (exceeded.limit, exceeded.holder_kind) == ("tpm", "project")
    assert (exceeded.bound, exceeded.used, exceeded.requested) == (300, 200, 150)
    assert (exceeded.wait_s, exceeded.never) == (10.0, False)
    assert exceeded.requests is not None
    assert exceeded.requests.remaining == 58
    assert exceeded.tokens == BucketStanding(limit=300, remaining=100, reset_s=40.0)
    assert allowance.tokens == exceeded.tokens


async def test_a_request_that_can_never_fit_says_how_much_would(quotas: Quotas) -> None:
    short = Holder("key", "k", Limits(tpm=600, burst_s=10.0))
    allowance = await quotas.begin(caller(short), "r", 60.0)
    with pytest.raises(LimitExceeded) as refused:
        await allowance.charge(101)
    assert refused.value.never
    assert (refused.value.bound, refused.value.most, refused.value.requested) == (600, 100, 101)


async def test_requests_at_a_time(quotas: Quotas) -> None:
    first = await quotas.begin(caller(KEY), "a", 60.0)
    await quotas.begin(caller(KEY), "b", 60.0)
    exceeded = await refusal(quotas, caller(KEY), "c")
    assert (exceeded.limit, exceeded.bound, exceeded.used) == ("concurrency", 2, 2)
    assert 0 < exceeded.wait_s <= 1.5  # a guess of a second, spread
    assert exceeded.requests is not None
    assert exceeded.requests.remaining == 58  # what was refused is not counted
    await first.settle(kept=True)
    await quotas.begin(caller(KEY), "c", 60.0)


async def test_a_budget_used_up_refuses_before_anything_is_read(
    quotas: Quotas, database: Database, clock: HandClock
) -> None:
    database.used[PROJECT.name, "daily"] = 400
    exceeded = await refusal(quotas, caller(KEY, PROJECT), "r")
    assert (exceeded.limit, exceeded.holder_kind) == ("daily", "project")
    assert (exceeded.bound, exceeded.used, exceeded.requested) == (400, 400, 0)
    assert exceeded.resets_at == clock.now + 12 * 3600.0
    assert exceeded.wait_s == 12 * 3600.0


async def test_a_request_larger_than_what_is_left_of_a_budget(
    quotas: Quotas, database: Database
) -> None:
    database.used["m", "monthly"] = 90
    monthly = Holder("key", "m", Limits(monthly_tokens=100))
    allowance = await quotas.begin(caller(monthly), "r", 60.0)
    with pytest.raises(LimitExceeded) as refused:
        await allowance.charge(11)
    assert (refused.value.limit, refused.value.used, refused.value.never) == ("monthly", 90, False)
    allowance = await quotas.begin(caller(monthly), "s", 60.0)
    await allowance.charge(10)
    assert (await refusal(quotas, caller(monthly), "t")).limit == "monthly"


async def test_what_is_not_kept_is_given_back_whole_and_once(
    quotas: Quotas, store: Watched
) -> None:
    allowance = await quotas.begin(caller(KEY, PROJECT), "r", 60.0)
    await allowance.charge(300)
    await allowance.settle(kept=False)
    await allowance.settle(kept=False)
    await allowance.settle(kept=True)
    assert len(store.given_back) == 2
    again = await quotas.begin(caller(KEY, PROJECT), "s", 60.0)
    assert again.requests is not None
    assert again.requests.remaining == 59
    await again.charge(300)
    with pytest.raises(LimitExceeded):
        await again.charge(1)


async def test_what_is_kept_stays_counted_and_its_slot_ends(quotas: Quotas) -> None:
    for i in range(3):
        allowance = await quotas.begin(caller(KEY), f"r{i}", 60.0)
        await allowance.charge(100)
        await allowance.settle(kept=True)
        await allowance.settle(kept=False)
    allowance = await quotas.begin(caller(KEY), "s", 60.0)
    assert allowance.requests is not None
    assert allowance.tokens is not None
    assert (allowance.requests.remaining, allowance.tokens.remaining) == (56, 300)


async def test_cancelled_while_the_store_counts_nothing_stays_counted(
    quotas: Quotas, store: Watched
) -> None:
    store.may_answer.clear()
    beginning = asyncio.create_task(quotas.begin(caller(KEY), "r", 60.0))
    while not store.asked:
        await asyncio.sleep(0)
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    store.may_answer.set()
    async with asyncio.timeout(5):
        while not store.given_back:
            await asyncio.sleep(0.001)
    assert store.given_back == store.asked
    for i in range(2):
        allowance = await quotas.begin(caller(KEY), f"s{i}", 60.0)
    assert allowance.requests is not None
    assert allowance.requests.remaining == 58


async def test_settling_is_finished_though_the_caller_is_cancelled(
    quotas: Quotas, store: Watched
) -> None:
    allowance = await quotas.begin(caller(KEY), "r", 60.0)
    settling = asyncio.create_task(allowance.settle(kept=True))
    await asyncio.sleep(0)
    settling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await settling
    await allowance.settle(kept=True)
    assert len(store.given_back) == 1
    await quotas.begin(caller(KEY), "a", 60.0)
    await quotas.begin(caller(KEY), "b", 60.0)


async def test_those_that_were_refused_a_slot_together_come_back_apart(quotas: Quotas) -> None:
    single = caller(Holder("key", "k", Limits(max_concurrency=1)))
    await quotas.begin(single, "held", 60.0)
    waits_s = []
    for number in range(40):
        with pytest.raises(LimitExceeded) as refused:
            await quotas.begin(single, str(number), 60.0)
        waits_s.append(refused.value.wait_s)
    assert all(0.5 <= wait_s <= 1.5 for wait_s in waits_s)
    assert max(waits_s) - min(waits_s) > 0.3
    assert len(set(waits_s)) == 40
