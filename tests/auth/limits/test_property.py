"""Thousands of random steps, each held to an exact model: nothing too much, nothing too little."""

import asyncio
import itertools
import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace

import pytest
from exact_limits import US, ExactLimits
from hand_clock import HandClock

from auth.holder import Holder
from auth.limits.demand import Bucket, Budget, Demand, Slot
from auth.limits.redis import RedisLimits
from auth.limits.standing import Standing
from auth.limits.store import LimitStore
from auth.record import Limits

HOLDERS = [
    Holder("key", "slow", Limits(rpm=7, tpm=100, max_concurrency=3, daily_tokens=2_000)),
    Holder("key", "bursty", Limits(rpm=600, tpm=1_234_567, burst_s=1.5, monthly_tokens=10**9)),
    Holder("key", "fast", Limits(rpm=999_983, tpm=99_999_989, max_concurrency=20)),
    Holder("project", "steady", Limits(rpm=60, tpm=6_000, burst_s=600.0, daily_tokens=300_000)),
]


@dataclass
class _Taken:
    demand: Demand
    standing: Standing
    at_us: int


class Trial:
    """Random demands on one or two gateways; what is granted is held to the model."""

    def __init__(self, gateways: list[LimitStore], clock: HandClock, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.model = ExactLimits()
        self.granted = self.refused = self.refunded = 0
        self._gateways = gateways
        self._clock = clock
        self._us = round(clock.now * US)
        self._open: list[_Taken] = []
        self._requests = itertools.count()

    def move(self, by_us: int) -> None:
        self._us += by_us
        self._clock.now = self._us / US

    async def step(self, with_budgets: bool = True) -> None:
        """One call at each of up to as many gateways as there are, at once."""
        count = self.random.randint(1, len(self._gateways))
        stores = self.random.sample(self._gateways, count)
        demands = [self._demand(with_budgets) for _ in stores]
        standings = await asyncio.gather(
            *[store.take(demand) for store, demand in zip(stores, demands, strict=True)]
        )
        self._hold_to_model(list(zip(demands, standings, strict=True)))
        if self._open and self.random.random() < 0.3:
            await self._give_back()

    def _demand(self, with_budgets: bool) -> Demand:
        holders = self.random.sample(HOLDERS, self.random.randint(1, 2))
        buckets: list[Bucket] = []
        slots: list[Slot] = []
        budgets: list[Budget] = []
        for holder in holders:
            requests, tokens = Bucket(holder, "requests", 1), Bucket(holder, "tokens", 0)
            most = max(1, int(tokens.burst * self.random.choice((0.01, 0.2, 1.02))))
            cost = self.random.randint(0, most)
            buckets += [requests, replace(tokens, cost=cost)]
            if holder.limits.max_concurrency and self.random.random() < 0.5:
                ttl_s = self.random.choice((0.5, 5.0, 60.0))
                slots.append(Slot(holder, f"r{next(self._requests)}", ttl_s))
            if with_budgets and holder.limits.daily_tokens:
                budgets.append(Budget(holder, "daily", cost))
            if with_budgets and holder.limits.monthly_tokens:
                budgets.append(Budget(holder, "monthly", cost))
        return Demand(tuple(buckets), tuple(slots), tuple(budgets))

    def _hold_to_model(self, answers: list[tuple[Demand, Standing]]) -> None:
        """Calls made at once were answered in some order."""
        for order in itertools.permutations(answers):
            model = deepcopy(self.model)
            if all(self._agree(model, demand, standing) for demand, standing in order):
                break
        else:
            raise AssertionError(f"no order explains {answers}")
        self.model = model
        for demand, standing in answers:
            if standing.refusal is None:
                self.granted += 1
                self._open.append(_Taken(demand, standing, self._us))
            else:
                self.refused += 1

    def _agree(self, model: ExactLimits, demand: Demand, standing: Standing) -> bool:
        before = deepcopy(model)
        if model.take(demand, self._us) != (standing.refusal is None):
            return False
        refusal = standing.refusal
        if (
            refusal is not None
            and isinstance(refusal.of, Bucket)
            and not refusal.never
            and not before.wait_is_exact(refusal.of, refusal.wait_s, self._us)
        ):
            return False
        return model.agrees(demand, standing, self._us)

    async def _give_back(self) -> None:
        taken = self._open.pop(self.random.randrange(len(self._open)))
        await taken.standing.by.give_back(taken.standing.taken)
        self.model.give_back(taken.demand, taken.at_us, self._us)
        self.refunded += 1


def forward(trial: Trial) -> int:
    """From no time at all to a day, in us."""
    return round(trial.random.choice((0, 1, 1e-3, 1, 10, 3600)) * trial.random.random() * US)


async def hold(trial: Trial, steps: int) -> None:
    for _ in range(steps):
        await trial.step()
        trial.move(forward(trial))
    assert min(trial.granted, trial.refused, trial.refunded) > steps / 20  # it was no idle trial


@pytest.mark.parametrize("seed", range(3))
async def test_each_answer_is_the_exact_one(
    limits: LimitStore, clock: HandClock, seed: int
) -> None:
    await hold(Trial([limits], clock, seed), 2000)


@pytest.mark.parametrize("seed", range(3))
async def test_two_gateways_at_once_are_answered_as_if_one_after_the_other(
    make_limits: Callable[..., RedisLimits], clock: HandClock, seed: int
) -> None:
    await hold(Trial([make_limits(clock), make_limits(clock)], clock, seed), 2000)


@pytest.mark.parametrize("seed", range(3))
async def test_each_answer_is_the_exact_one_though_the_clock_is_set(
    limits: LimitStore, clock: HandClock, seed: int
) -> None:
    """Back and forth by up to an hour, which stays within the day."""
    trial = Trial([limits], clock, seed)
    noon = clock.now
    for _ in range(2000):
        await trial.step(with_budgets=False)
        trial.move(round(trial.random.random() * 2 * US))
        if trial.random.random() < 0.1:
            step_us = round(trial.random.uniform(-3600, 3600) * US)
            if abs(clock.now + step_us / US - noon) < 36_000:
                trial.move(step_us)
    assert min(trial.granted, trial.refused, trial.refunded) > 100


@pytest.mark.parametrize("seed", range(5))
async def test_never_over_the_limit_by_more_than_the_burst(
    limits: LimitStore, clock: HandClock, seed: int
) -> None:
    """Said without a model: in no stretch of time more than the burst and the rate, net."""
    chance = random.Random(seed)  # noqa: S311
    holder = Holder("key", "k", Limits(tpm=6_000, burst_s=chance.choice((1.0, 7.0, 60.0))))
    bucket = Bucket(holder, "tokens", 0)
    grants: list[tuple[float, int]] = []
    for _ in range(1000):
        cost = chance.randint(1, bucket.burst // 3)
        standing = await limits.take(Demand(buckets=(replace(bucket, cost=cost),)))
        if standing.refusal is None and chance.random() < 0.2:
            await limits.give_back(standing.taken)
        elif standing.refusal is None:
            grants.append((clock.now, cost))
        clock.now += chance.expovariate(3 * 100 / (bucket.burst / 6))  # thrice the rate
    sums = list(itertools.accumulate([cost for _, cost in grants], initial=0))
    for first in range(0, len(grants), 7):
        for last in range(first, len(grants)):
            elapsed_s = grants[last][0] - grants[first][0]
            assert sums[last + 1] - sums[first] <= bucket.burst + 100 * elapsed_s + 1e-3
    assert sums[-1] >= 0.9 * 100 * (clock.now - grants[0][0])
