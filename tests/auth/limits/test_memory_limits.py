"""What only limits in memory promise."""

from hand_clock import HandClock

from auth.calendar import Period
from auth.errors import StoreUnavailable
from auth.holder import Holder
from auth.limits.demand import Bucket, Budget, Demand, Slot
from auth.limits.memory import MemoryLimits
from auth.record import Limits

LIMITS = Limits(rpm=60, max_concurrency=1, daily_tokens=100)


def demand(name: str) -> Demand:
    holder = Holder("key", name, LIMITS)
    return Demand(
        (Bucket(holder, "requests", 60),), (Slot(holder, "r", 60.0),), (Budget(holder, "daily", 1),)
    )


async def unused(holder: Holder, period: Period) -> int | None:
    return 0


async def test_what_is_over_is_forgotten_and_what_is_in_force_is_not(clock: HandClock) -> None:
    limits = MemoryLimits(unused, clock)
    days, keys_a_day = 5, 2000
    for day in range(days):
        for i in range(keys_a_day):
            await limits.take(demand(f"{day}-{i}"))
        refusal = (await limits.take(demand(f"{day}-0"))).refusal
        assert refusal is not None  # though it was the first of many
        remembered = len(limits._debts) + len(limits._leases) + len(limits._counts)
        assert remembered <= 2 * 3 * keys_a_day
        clock.now += 86_400.0


async def test_a_database_that_fails_refuses_nobody(clock: HandClock) -> None:
    async def failing(holder: Holder, period: Period) -> int | None:
        raise StoreUnavailable("away")

    limits = MemoryLimits(failing, clock)
    standing = await limits.take(demand("k"))
    assert standing.refusal is None
    assert standing.budgets_used == (1,)
