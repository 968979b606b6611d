"""The limits of one request, from before it is read to when it is answered."""

import asyncio
import random
from collections.abc import Sequence

from auth.calendar import Period
from auth.holder import Holder
from auth.limits.demand import Bucket, Budget, Demand, Slot, Unit
from auth.limits.exceeded import LimitExceeded, LimitName
from auth.limits.standing import BucketStanding, Refusal, Standing
from auth.limits.store import LimitStore
from auth.principal import Principal

NEARLY_SPENT = 0.8  # of a budget

_OF_BUCKETS: dict[Unit, LimitName] = {"requests": "rpm", "tokens": "tpm"}


class Quotas:
    """Begins the allowance of each request."""

    def __init__(self, store: LimitStore) -> None:
        self._store = store

    async def begin(self, principal: Principal, request_id: str, ttl_s: float) -> "Allowance":
        """Count one request, and take its slots for `ttl_s` seconds at most.

        Refuses a caller whose token budget is used up, too. Raises `LimitExceeded`. Cancelled, it
        leaves nothing counted. Asks the store nothing where the caller has no limits.
        """
        holders = principal.holders
        if not holders:
            return UNLIMITED
        demand = Demand(
            buckets=_buckets(holders, "requests", 1) + _buckets(holders, "tokens", 0),
            slots=tuple(
                Slot(holder, request_id, ttl_s)
                for holder in holders
                if holder.limits.max_concurrency is not None
            ),
            budgets=_budgets(holders, 0),
        )
        allowance = Allowance(self._store, holders)
        await allowance.take(demand)
        return allowance

    async def look(self, principal: Principal) -> "Allowance":
        """What is left of the caller's rates. Counts nothing, and refuses nobody.

        Asks the store nothing where the caller has none.
        """
        holders = principal.holders
        if not holders:
            return UNLIMITED
        allowance = Allowance(self._store, holders)
        buckets = _buckets(holders, "requests", 0) + _buckets(holders, "tokens", 0)
        await allowance.take(Demand(buckets=buckets))
        return allowance


class Allowance:
    """What one request was granted. Without holders it grants everything and asks nobody."""

    def __init__(self, store: LimitStore | None, holders: Sequence[Holder]) -> None:
        self.requests: BucketStanding | None = None  # the tightest of key and project
        self.tokens: BucketStanding | None = None  # likewise; None: no such limit
        self.nearly_spent: frozenset[Period] = frozenset()  # budgets of which little is left
        self._store = store
        self._holders = holders
        self._granted: list[Standing] = []
        self._settling: asyncio.Task[None] | None = None

    async def charge(self, tokens: int) -> None:
        """Count the tokens of the request, once they are known. To be called once.

        Raises `LimitExceeded`; the request itself stays counted until it is settled.
        """
        if not self._holders:
            return
        await self.take(
            Demand(
                buckets=_buckets(self._holders, "tokens", tokens),
                budgets=_budgets(self._holders, tokens),
            )
        )

    async def settle(self, kept: bool) -> None:
        """End the slots; unless `kept`, give back the request and its tokens.

        Once is enough, and twice is once. Never raises, and is finished though the caller is
        cancelled.
        """
        if self._settling is None:
            taken = [
                (s.by, Demand(slots=s.taken.slots) if kept else s.taken) for s in self._granted
            ]
            due = [(by, demand) for by, demand in taken if demand]
            if not due:
                self._granted.clear()
                return
            self._settling = asyncio.ensure_future(_give_back(due))
        await asyncio.shield(self._settling)

    async def take(self, demand: Demand) -> None:
        """Raises `LimitExceeded`. Where the caller is cancelled what was taken is given back."""
        if self._store is None or not demand:
            return
        taking = asyncio.ensure_future(self._store.take(demand))
        try:
            standing = await asyncio.shield(taking)
        except asyncio.CancelledError:
            # Whether it is granted is told to nobody else.
            taking.add_done_callback(_abandon)
            raise
        self._note(demand, standing)
        if standing.refusal is not None:
            raise self._exceeded(standing.refusal)
        self._granted.append(standing)

    def _note(self, demand: Demand, standing: Standing) -> None:
        told = list(zip(demand.buckets, standing.buckets, strict=True))
        self.requests = _tightest(told, "requests") or self.requests
        self.tokens = _tightest(told, "tokens") or self.tokens
        self.nearly_spent = frozenset(
            budget.period
            for budget, used in zip(demand.budgets, standing.budgets_used, strict=True)
            if used > NEARLY_SPENT * budget.limit
        )

    def _exceeded(self, refusal: Refusal) -> LimitExceeded:
        asked, wait_s = refusal.of, refusal.wait_s
        if isinstance(asked, Bucket):
            limit, most, requested = _OF_BUCKETS[asked.unit], asked.burst, asked.cost
        elif isinstance(asked, Slot):
            limit, most, requested = "concurrency", asked.limit, 1
            # A guess: spread, or all that were refused together would come back together.
            wait_s *= random.uniform(0.5, 1.5)  # noqa: S311
        else:
            limit, most, requested = asked.period, asked.limit, asked.cost
        return LimitExceeded(
            limit=limit,
            holder_kind=asked.holder.kind,
            bound=asked.limit,
            most=most,
            used=refusal.used,
            requested=requested,
            wait_s=wait_s,
            never=refusal.never,
            resets_at=refusal.resets_at,
            requests=self.requests,
            tokens=self.tokens,
        )


UNLIMITED = Allowance(None, ())  # of a caller without limits, where no request is counted

_abandoned: set[asyncio.Task[None]] = set()  # the event loop keeps no task alive


async def _give_back(due: Sequence[tuple[LimitStore, Demand]]) -> None:
    for by, taken in due:
        await by.give_back(taken)


def _tightest(told: Sequence[tuple[Bucket, BucketStanding]], unit: Unit) -> BucketStanding | None:
    of_unit = [standing for bucket, standing in told if bucket.unit == unit]
    return min(of_unit, key=lambda standing: (standing.remaining, standing.limit), default=None)


def _abandon(taking: asyncio.Future[Standing]) -> None:
    if taking.cancelled() or taking.exception() is not None:
        return
    standing = taking.result()
    if standing.taken:
        task = asyncio.ensure_future(standing.by.give_back(standing.taken))
        _abandoned.add(task)
        task.add_done_callback(_abandoned.discard)


def _buckets(holders: Sequence[Holder], unit: Unit, cost: int) -> tuple[Bucket, ...]:
    return tuple(
        Bucket(holder, unit, cost)
        for holder in holders
        if (holder.limits.rpm if unit == "requests" else holder.limits.tpm) is not None
    )


def _budgets(holders: Sequence[Holder], cost: int) -> tuple[Budget, ...]:
    periods: tuple[tuple[Period, str], ...] = (
        ("daily", "daily_tokens"),
        ("monthly", "monthly_tokens"),
    )
    return tuple(
        Budget(holder, period, cost)
        for holder in holders
        for period, field in periods
        if getattr(holder.limits, field) is not None
    )
