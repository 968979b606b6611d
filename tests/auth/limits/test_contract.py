"""What both stores of limits promise."""

import asyncio
from datetime import UTC, datetime
from typing import Protocol

from hand_clock import HandClock

from auth.calendar import Period
from auth.holder import Holder
from auth.limits.demand import LARGEST_BURST, LONGEST_LEASE_S, Bucket, Budget, Demand, Slot
from auth.limits.standing import BucketStanding
from auth.limits.store import RESEED_S, LimitStore
from auth.record import Limits


class Database(Protocol):
    used: dict[tuple[str, Period], int]
    is_down: bool
    asked: list[tuple[str, Period]]


LIMITS = Limits(rpm=60, tpm=600, max_concurrency=2, daily_tokens=1000, monthly_tokens=5000)
KEY = Holder("key", "a1b2c3d4e5f6", LIMITS)
PROJECT = Holder("project", "a: 100 % name", LIMITS)


def requests(cost: int, holder: Holder = KEY) -> Demand:
    return Demand(buckets=(Bucket(holder, "requests", cost),))


def tokens(cost: int, holder: Holder = KEY) -> Demand:
    return Demand(buckets=(Bucket(holder, "tokens", cost),))


def slot(request_id: str, ttl_s: float = 60.0, holder: Holder = KEY) -> Demand:
    return Demand(slots=(Slot(holder, request_id, ttl_s),))


def budget(cost: int, period: Period = "daily", holder: Holder = KEY) -> Demand:
    return Demand(budgets=(Budget(holder, period, cost),))


def everything(cost: int, request_id: str, holder: Holder = KEY) -> Demand:
    return Demand(
        buckets=(Bucket(holder, "requests", 1), Bucket(holder, "tokens", cost)),
        slots=(Slot(holder, request_id, 60.0),),
        budgets=(Budget(holder, "daily", cost), Budget(holder, "monthly", cost)),
    )


async def granted(limits: LimitStore, demand: Demand) -> bool:
    return (await limits.take(demand)).refusal is None


# Buckets


async def test_a_full_bucket_tells_its_limit_and_what_remains(limits: LimitStore) -> None:
    standing = await limits.take(requests(0))
    assert standing.buckets == (BucketStanding(limit=60, remaining=60, reset_s=0.0),)
    standing = await limits.take(requests(3))
    assert standing.buckets == (BucketStanding(limit=60, remaining=57, reset_s=3.0),)


async def test_the_burst_may_be_spent_at_once_and_comes_back_at_the_rate(
    limits: LimitStore, clock: HandClock
) -> None:
    assert await granted(limits, tokens(600))
    standing = await limits.take(tokens(10))
    assert standing.refusal is not None
    assert (standing.refusal.used, standing.refusal.wait_s) == (600, 1.0)
    assert not standing.refusal.never
    clock.now += 0.999
    assert not await granted(limits, tokens(10))
    clock.now += 0.001
    assert await granted(limits, tokens(10))
    assert not await granted(limits, tokens(1))


async def test_what_exceeds_the_burst_never_fits(limits: LimitStore) -> None:
    refusal = (await limits.take(tokens(601))).refusal
    assert refusal is not None
    assert refusal.never
    assert refusal.wait_s == 0.0


async def test_burst_s_says_how_much_may_be_spent_at_once(
    limits: LimitStore, clock: HandClock
) -> None:
    short = Holder("key", "short", Limits(tpm=600, burst_s=1.0))
    assert (await limits.take(tokens(0, short))).buckets[0].remaining == 10
    assert await granted(limits, tokens(10, short))
    assert not await granted(limits, tokens(1, short))
    clock.now += 60.0
    assert not await granted(limits, tokens(11, short))
    tiny = Holder("key", "tiny", Limits(rpm=6, burst_s=1.0))  # a tenth of a request
    assert await granted(limits, requests(1, tiny))
    assert not await granted(limits, requests(1, tiny))


async def test_a_look_is_never_refused_and_changes_nothing(limits: LimitStore) -> None:
    assert await granted(limits, tokens(600))
    standing = await limits.take(tokens(0))
    assert standing.refusal is None
    assert standing.buckets == (BucketStanding(limit=600, remaining=0, reset_s=60.0),)


async def test_what_is_given_back_may_be_spent_again(limits: LimitStore) -> None:
    standing = await limits.take(tokens(400))
    assert not await granted(limits, tokens(201))
    await standing.by.give_back(standing.taken)
    assert await granted(limits, tokens(600))


async def test_giving_back_makes_no_burst_larger(limits: LimitStore, clock: HandClock) -> None:
    standing = await limits.take(tokens(400))
    clock.now += 30.0  # most of it has flowed off
    await standing.by.give_back(standing.taken)
    assert (await limits.take(tokens(0))).buckets[0].remaining == 600
    assert await granted(limits, tokens(600))
    assert not await granted(limits, tokens(1))


async def test_a_clock_set_back_stops_nothing(limits: LimitStore, clock: HandClock) -> None:
    assert await granted(limits, tokens(600))
    clock.now -= 3600.0
    assert not await granted(limits, tokens(10))
    clock.now += 1.0
    assert await granted(limits, tokens(10))
    assert not await granted(limits, tokens(1))


async def test_a_lowered_limit_owes_no_more_than_its_burst(
    limits: LimitStore, clock: HandClock
) -> None:
    assert await granted(limits, tokens(600))
    lowered = Holder(KEY.kind, KEY.name, Limits(tpm=60))
    assert not await granted(limits, tokens(1, lowered))
    clock.now += 1.0
    assert await granted(limits, tokens(1, lowered))


async def test_holders_and_units_are_counted_apart(limits: LimitStore) -> None:
    assert await granted(limits, tokens(600))
    assert await granted(limits, requests(60))
    assert await granted(limits, tokens(600, PROJECT))
    same_name = Holder("project", KEY.name, LIMITS)
    assert await granted(limits, tokens(600, same_name))


# Slots


async def test_slots_are_bounded_and_end_when_given_back(limits: LimitStore) -> None:
    first = await limits.take(slot("a"))
    assert await granted(limits, slot("b"))
    refusal = (await limits.take(slot("c"))).refusal
    assert refusal is not None
    assert refusal.used == 2
    assert 0 < refusal.wait_s <= 1.0
    await first.by.give_back(first.taken)
    assert await granted(limits, slot("c"))
    assert not await granted(limits, slot("d"))


async def test_a_lease_nobody_gives_back_ends_by_itself(
    limits: LimitStore, clock: HandClock
) -> None:
    assert await granted(limits, slot("a", ttl_s=10.0))
    assert await granted(limits, slot("b", ttl_s=10.0))
    clock.now += 9.9
    refusal = (await limits.take(slot("c"))).refusal
    assert refusal is not None
    assert abs(refusal.wait_s - 0.1) < 1e-5
    clock.now += 0.1
    assert await granted(limits, slot("c"))
    assert await granted(limits, slot("d"))


async def test_the_same_request_takes_one_slot(limits: LimitStore, clock: HandClock) -> None:
    assert await granted(limits, slot("a", ttl_s=10.0))
    assert await granted(limits, slot("b", ttl_s=100.0))
    clock.now += 5.0
    assert await granted(limits, slot("a", ttl_s=10.0))
    clock.now += 6.0
    assert not await granted(limits, slot("c"))


async def test_a_clock_set_back_keeps_no_slot_for_ever(
    limits: LimitStore, clock: HandClock
) -> None:
    assert await granted(limits, slot("a"))
    assert await granted(limits, slot("b"))
    clock.now -= 86_400.0
    assert not await granted(limits, slot("c"))
    clock.now += LONGEST_LEASE_S - 1
    assert not await granted(limits, slot("c"))
    clock.now += 1.0
    assert await granted(limits, slot("c"))


# Budgets


async def test_a_budget_begins_with_what_the_database_knows_and_asks_once(
    limits: LimitStore, database: Database
) -> None:
    database.used[KEY.name, "daily"] = 900
    standing = await limits.take(budget(0))
    assert standing.refusal is None
    assert standing.budgets_used == (900,)
    assert (await limits.take(budget(60))).budgets_used == (960,)
    refusal = (await limits.take(budget(41))).refusal
    assert refusal is not None
    assert (refusal.used, refusal.never) == (960, False)
    assert await granted(limits, budget(40))
    assert database.asked == [(KEY.name, "daily")]


async def test_many_first_requests_ask_the_database_once(
    limits: LimitStore, database: Database
) -> None:
    database.used[KEY.name, "daily"] = 500
    answers = await asyncio.gather(*[granted(limits, budget(100)) for _ in range(20)])
    assert sum(answers) == 5
    assert database.asked == [(KEY.name, "daily")]


async def test_a_look_at_a_budget_is_refused_when_nothing_is_left(limits: LimitStore) -> None:
    assert await granted(limits, budget(999))
    assert await granted(limits, budget(0))
    assert await granted(limits, budget(1))
    assert not await granted(limits, budget(0))


async def test_more_than_the_whole_budget_never_fits(limits: LimitStore) -> None:
    refusal = (await limits.take(budget(1001))).refusal
    assert refusal is not None
    assert refusal.never


async def test_budgets_begin_anew_with_their_day_and_month(
    limits: LimitStore, clock: HandClock
) -> None:
    clock.now = datetime(2027, 1, 31, 23, 59, 58, tzinfo=UTC).timestamp()
    midnight = clock.now + 2
    spent = Demand(budgets=(Budget(KEY, "daily", 1000), Budget(KEY, "monthly", 5000)))
    assert await granted(limits, spent)
    for period in ("daily", "monthly"):
        refusal = (await limits.take(budget(1, period))).refusal
        assert refusal is not None
        assert refusal.wait_s == 2.0
        assert refusal.resets_at == midnight
    clock.now += 2.0
    assert await granted(limits, spent)
    clock.now += 86_400.0
    assert await granted(limits, budget(1000))
    assert not await granted(limits, budget(1, "monthly"))


async def test_a_database_that_is_down_is_asked_again_within_a_minute(
    limits: LimitStore, database: Database, clock: HandClock
) -> None:
    database.is_down = True
    database.used[KEY.name, "daily"] = 990
    assert (await limits.take(budget(100))).budgets_used == (100,)
    clock.now += RESEED_S - 1
    assert await granted(limits, budget(0))
    assert len(database.asked) == 1
    clock.now += 1.0
    assert await granted(limits, budget(0))
    assert len(database.asked) == 2
    database.is_down = False
    clock.now += RESEED_S
    assert (await limits.take(budget(0))).budgets_used == (990,)
    assert not await granted(limits, budget(11))
    clock.now += 10 * RESEED_S
    assert await granted(limits, budget(10))
    assert 3 <= len(database.asked) <= 4  # a store that others share goes on asking


async def test_what_was_counted_stays_where_the_database_does_not_know_all_of_it_yet(
    limits: LimitStore, database: Database, clock: HandClock
) -> None:
    database.is_down = True
    assert await granted(limits, budget(100))
    database.is_down = False
    database.used[KEY.name, "daily"] = 60
    clock.now += RESEED_S
    assert (await limits.take(budget(0))).budgets_used == (100,)


async def test_a_cost_is_given_back_to_the_day_that_it_was_counted_on(
    limits: LimitStore, clock: HandClock
) -> None:
    clock.now = datetime(2027, 1, 15, 23, 59, 58, tzinfo=UTC).timestamp()
    standing = await limits.take(budget(700))
    clock.now += 4.0
    assert await granted(limits, budget(800))
    await standing.by.give_back(standing.taken)
    assert (await limits.take(budget(0))).budgets_used == (800,)
    clock.now -= 4.0
    assert (await limits.take(budget(0))).budgets_used == (0,)


# The whole


async def test_a_demand_that_any_part_refuses_changes_nothing(limits: LimitStore) -> None:
    for spent, one in [
        (requests(60), 0),
        (tokens(595), 1),
        (Demand(slots=(*slot("x").slots, *slot("y").slots)), 2),
        (budget(995), 3),
        (budget(4995, "monthly"), 4),
    ]:
        holder = Holder("key", f"k{one}", LIMITS)
        standing = await limits.take(_held_by(spent, holder))
        assert standing.refusal is None
        refused = await limits.take(everything(10, "r", holder))
        assert refused.refusal is not None
        assert refused.refusal.of == everything(10, "r", holder).parts[one]
        assert not refused.taken
        await standing.by.give_back(standing.taken)
        whole = await limits.take(everything(600, "s", holder))
        assert whole.refusal is None
        assert [told.remaining for told in whole.buckets] == [59, 0]
        assert whole.budgets_used == (600, 600)
        assert await granted(limits, slot("t", holder=holder))
        assert not await granted(limits, slot("u", holder=holder))


async def test_of_two_holders_either_refuses(limits: LimitStore) -> None:
    both = Demand(buckets=(Bucket(KEY, "tokens", 100), Bucket(PROJECT, "tokens", 100)))
    assert await granted(limits, tokens(550, PROJECT))
    refusal = (await limits.take(both)).refusal
    assert refusal is not None
    assert refusal.of == both.buckets[1]
    assert (await limits.take(tokens(0))).buckets[0].remaining == 600


async def test_of_several_refusals_the_one_that_never_fits_is_told_then_the_longest(
    limits: LimitStore,
) -> None:
    demand = Demand(buckets=(Bucket(KEY, "tokens", 601),), budgets=(Budget(KEY, "daily", 601),))
    assert await granted(limits, budget(1000))
    refusal = (await limits.take(demand)).refusal
    assert refusal is not None
    assert refusal.of == demand.buckets[0]
    assert await granted(limits, Demand(buckets=(*requests(60).buckets, *tokens(600).buckets)))
    demand = Demand(buckets=(Bucket(KEY, "requests", 2), Bucket(KEY, "tokens", 500)))
    refusal = (await limits.take(demand)).refusal
    assert refusal is not None
    assert (refusal.of, refusal.wait_s) == (demand.buckets[1], 50.0)


async def test_a_budget_that_can_never_hold_it_is_told_before_one_to_wait_longer_for(
    limits: LimitStore,
) -> None:
    demand = Demand(budgets=(Budget(KEY, "daily", 1001), Budget(KEY, "monthly", 1001)))
    assert await granted(limits, budget(4500, "monthly"))
    refusal = (await limits.take(demand)).refusal
    assert refusal is not None
    assert refusal.of == demand.budgets[0]
    assert (refusal.never, refusal.wait_s) == (True, 0.0)
    # Nor does the order of the demand decide.
    refusal = (await limits.take(Demand(budgets=demand.budgets[::-1]))).refusal
    assert refusal is not None
    assert refusal.of == demand.budgets[0]


async def test_the_largest_limits_are_counted_exactly(limits: LimitStore, clock: HandClock) -> None:
    most = Limits(
        rpm=10**9,
        tpm=10**15,
        max_concurrency=10**6,
        burst_s=86_400.0,
        daily_tokens=10**15,
        monthly_tokens=10**15,
    )
    most.check()
    holder = Holder("key", "most", most)
    look = Demand((*requests(0, holder).buckets, *tokens(0, holder).buckets))
    assert [told.remaining for told in (await limits.take(look)).buckets] == [LARGEST_BURST] * 2
    assert await granted(limits, requests(LARGEST_BURST - 1, holder))
    assert await granted(limits, tokens(LARGEST_BURST - 3, holder))
    standing = await limits.take(look)
    assert [told.remaining for told in standing.buckets] == [1, 3]
    assert not await granted(limits, tokens(4, holder))
    assert await granted(limits, tokens(3, holder))
    clock.now += 0.25  # 4 million requests, and more tokens than the burst
    assert [told.remaining for told in (await limits.take(look)).buckets] == [
        1 + 10**9 // 240,
        LARGEST_BURST,
    ]
    assert await granted(limits, budget(10**15 - 1, holder=holder))
    assert not await granted(limits, budget(2, holder=holder))
    assert await granted(limits, budget(1, holder=holder))
    assert (await limits.take(budget(0, holder=holder))).budgets_used == (10**15,)


async def test_everything_given_back_is_as_if_nothing_was_taken(limits: LimitStore) -> None:
    standing = await limits.take(everything(600, "a"))
    assert standing.refusal is None
    await standing.by.give_back(standing.taken)
    again = await limits.take(everything(600, "b"))
    assert [told.remaining for told in again.buckets] == [59, 0]
    assert again.budgets_used == (600, 600)


def _held_by(demand: Demand, holder: Holder) -> Demand:
    return Demand(
        buckets=tuple(Bucket(holder, b.unit, b.cost) for b in demand.buckets),
        slots=tuple(Slot(holder, s.request_id, s.ttl_s) for s in demand.slots),
        budgets=tuple(Budget(holder, b.period, b.cost) for b in demand.budgets),
    )
