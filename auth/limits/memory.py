"""Limits counted in this process."""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from auth.calendar import Period
from auth.limits.demand import (
    DEBT_OF_ONE,
    LONGEST_LEASE_S,
    Bucket,
    Budget,
    Demand,
    Slot,
    Unit,
    burst_of,
)
from auth.limits.period import Span, span_of
from auth.limits.seeding import Seeding
from auth.limits.standing import BucketStanding, Refusal, Standing
from auth.limits.store import RESEED_S, Seed

_SLOT_WAIT_US = 1_000_000  # when a slot is free nobody knows: a guess
_SWEEP_AT = 1024  # what is remembered before it is looked through for what is over

_Name = tuple[str, str]  # kind and name of a holder


@dataclass
class _Debt:
    """What was spent and has not flowed off since `at_us`, in units · DEBT_OF_ONE."""

    debt: int
    at_us: int
    empty_us: int


@dataclass
class _Count:
    """Tokens of one budget in one period."""

    used: int
    span: Span
    born: str
    again_s: float | None  # when the database is asked again; None: it need not be


@dataclass(frozen=True)
class _Refused:
    part: Bucket | Slot | Budget
    used: int
    wait_us: float  # infinite: it can never fit


class MemoryLimits:
    """A store of its own, or this gateway's share of one while Redis is away."""

    def __init__(
        self,
        seed: Seed,
        now: Callable[[], float] = time.time,
        *,
        share_of: Callable[[], int] | None = None,
    ) -> None:
        """`share_of` says how many gateways share rates and slots, each at least one of them.

        Budgets are not shared: what others use is asked of the database every RESEED_S.
        """
        self._now = now
        self._seeding = Seeding(seed, now)
        self._share_of = share_of
        self._debts: dict[tuple[_Name, Unit], _Debt] = {}
        self._leases: dict[_Name, dict[str, int]] = {}  # ends, us, by request id
        self._counts: dict[tuple[_Name, Period], _Count] = {}
        self._births = itertools.count()
        self._sweep_at = _SWEEP_AT

    async def take(self, demand: Demand) -> Standing:
        await self._seed(demand.budgets)
        # Nothing is awaited from here on: the demand is counted in one piece.
        now_us = round(self._now() * 1e6)
        self._sweep(now_us)
        refused = [
            *filter(None, [self._refuse_bucket(bucket, now_us) for bucket in demand.buckets]),
            *filter(None, [self._refuse_slot(slot, now_us) for slot in demand.slots]),
            *filter(None, [self._refuse_budget(budget, now_us) for budget in demand.budgets]),
        ]
        refusal, taken = None, Demand()
        if refused:
            worst = max(refused, key=lambda refused: refused.wait_us)
            wait_us = 0 if math.isinf(worst.wait_us) else int(worst.wait_us)
            refusal = Refusal.told(worst.part, worst.used, wait_us, now_us)
        else:
            taken = self._count(demand, now_us)
        return Standing(
            refusal=refusal,
            buckets=tuple(self._standing(bucket, now_us) for bucket in demand.buckets),
            budgets_used=tuple(self._count_of(budget).used for budget in demand.budgets),
            taken=taken,
            by=self,
        )

    async def give_back(self, taken: Demand) -> None:
        now_us = round(self._now() * 1e6)
        for bucket in taken.buckets:
            self._spend(bucket, -bucket.cost, now_us)
        for slot in taken.slots:
            leases = self._leases.get(_name(slot), {})
            leases.pop(slot.request_id, None)
        for budget in taken.budgets:
            count = self._counts.get((_name(budget), budget.period))
            if count is not None and count.born == budget.receipt:
                count.used = max(0, count.used - budget.cost)

    def ask_again(self) -> None:
        """Of a share: ask the database before any budget is granted more of, since others were."""
        for count in self._counts.values():
            if count.again_s is not None:
                count.again_s = 0.0

    async def _seed(self, budgets: Sequence[Budget]) -> None:
        """Have a count of the current period of each."""
        while True:
            now = self._now()
            spans = [(budget, span_of(budget.period, now)) for budget in budgets]
            due = [(budget, span) for budget, span in spans if self._is_due(budget, span, now)]
            if not due:
                return
            for (budget, span), used in zip(due, await self._seeding.ask(due), strict=True):
                self._plant(budget, span, used)

    def _is_due(self, budget: Budget, span: Span, now: float) -> bool:
        """Whether the database is to be asked; one call alone asks again."""
        count = self._counts.get((_name(budget), budget.period))
        if count is None or count.span != span:
            return True
        if count.again_s is None or now < count.again_s <= now + RESEED_S:
            return False
        count.again_s = now + RESEED_S
        return True

    def _plant(self, budget: Budget, span: Span, used: int | None) -> None:
        key = _name(budget), budget.period
        again_s = self._now() + RESEED_S if used is None or self._share_of else None
        count = self._counts.get(key)
        if count is None or count.span != span:
            self._counts[key] = _Count(used or 0, span, str(next(self._births)), again_s)
        elif count.again_s is not None:
            # What was counted meanwhile is in the seed, too, as far as it was written down.
            count.used, count.again_s = max(count.used, used or 0), again_s

    def _refuse_bucket(self, bucket: Bucket, now_us: int) -> _Refused | None:
        if bucket.cost > bucket.burst:
            return _Refused(bucket, self._used(bucket, now_us), math.inf)
        limit, burst = self._rate(bucket)
        # A share's burst may be too small for what fits the whole: that is let in where nothing is
        # owed, and owes the more.
        most = max(burst, bucket.cost) * DEBT_OF_ONE
        over = self._debt(bucket, now_us) + bucket.cost * DEBT_OF_ONE - most
        if bucket.cost == 0 or over <= 0:
            return None
        return _Refused(bucket, self._used(bucket, now_us), -(-over // limit))

    def _refuse_slot(self, slot: Slot, now_us: int) -> _Refused | None:
        leases = self._leases.setdefault(_name(slot), {})
        longest_us = now_us + int(LONGEST_LEASE_S * 1e6)
        for request_id, ends_us in list(leases.items()):
            if ends_us <= now_us:
                del leases[request_id]
            else:  # of a clock that was ahead, and was set back: no lease is this long
                leases[request_id] = min(ends_us, longest_us)
        if slot.request_id in leases or len(leases) < self._shared(slot.limit):
            return None
        soonest_us = min(leases.values()) - now_us
        return _Refused(slot, len(leases), min(soonest_us, _SLOT_WAIT_US))

    def _refuse_budget(self, budget: Budget, now_us: int) -> _Refused | None:
        count = self._count_of(budget)
        if count.used + max(1, budget.cost) <= budget.limit:
            return None
        wait_us = math.inf if budget.cost > budget.limit else count.span.end * 10**6 - now_us
        return _Refused(budget, count.used, wait_us)

    def _count(self, demand: Demand, now_us: int) -> Demand:
        for bucket in demand.buckets:
            if bucket.cost:
                self._spend(bucket, bucket.cost, now_us)
        for slot in demand.slots:
            ttl_us = int(min(slot.ttl_s, LONGEST_LEASE_S) * 1e6)
            self._leases[_name(slot)][slot.request_id] = now_us + ttl_us
        for budget in demand.budgets:
            self._count_of(budget).used += budget.cost
        receipts = [replace(b, receipt=self._count_of(b).born) for b in demand.budgets]
        return replace(demand, budgets=tuple(receipts))

    def _spend(self, bucket: Bucket, cost: int, now_us: int) -> None:
        debt = max(0, self._debt(bucket, now_us) + cost * DEBT_OF_ONE)
        empty_us = now_us + -(-debt // self._rate(bucket)[0])
        self._debts[_name(bucket), bucket.unit] = _Debt(debt, now_us, empty_us)

    def _debt(self, bucket: Bucket, now_us: int) -> int:
        owed = self._debts.get((_name(bucket), bucket.unit))
        if owed is None:
            return 0
        # Where the clock was set back debt flows off from now on, whatever is answered.
        owed.at_us = min(owed.at_us, now_us)
        flowed = self._rate(bucket)[0] * (now_us - owed.at_us)
        most = bucket.burst * DEBT_OF_ONE  # the burst may be new
        return max(0, min(owed.debt, most) - flowed)

    def _used(self, bucket: Bucket, now_us: int) -> int:
        return -(-self._debt(bucket, now_us) // DEBT_OF_ONE)

    def _standing(self, bucket: Bucket, now_us: int) -> BucketStanding:
        limit, burst = self._rate(bucket)
        return BucketStanding.of(limit, burst, self._debt(bucket, now_us))

    def _count_of(self, budget: Budget) -> _Count:
        return self._counts[_name(budget), budget.period]

    def _rate(self, bucket: Bucket) -> tuple[int, int]:
        """Limit and burst."""
        limit = self._shared(bucket.limit)
        return limit, burst_of(limit, bucket.holder.limits.burst_s)

    def _shared(self, limit: int) -> int:
        return limit if self._share_of is None else max(1, limit // max(1, self._share_of()))

    def _sweep(self, now_us: int) -> None:
        """Forget what is over; as seldom as it takes to cost each call nothing much."""
        if len(self._debts) + len(self._leases) + len(self._counts) < self._sweep_at:
            return
        self._debts = {k: owed for k, owed in self._debts.items() if owed.empty_us > now_us}
        self._leases = {
            k: leases
            for k, leases in self._leases.items()
            if any(ends_us > now_us for ends_us in leases.values())
        }
        self._counts = {
            k: count for k, count in self._counts.items() if count.span.end * 10**6 > now_us
        }
        kept = len(self._debts) + len(self._leases) + len(self._counts)
        self._sweep_at = max(_SWEEP_AT, 2 * kept)


def _name(part: Bucket | Slot | Budget) -> _Name:
    return part.holder.kind, part.holder.name
