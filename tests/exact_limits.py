"""What limits should answer, in fractions: slow, short, and written apart from the stores."""

from collections import defaultdict
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction

from auth.limits.demand import LONGEST_LEASE_S, Bucket, Budget, Demand, Slot
from auth.limits.standing import Standing

US = 1_000_000


@dataclass
class _Level:
    """Units that may be spent, as of the last time that any were spent or given back."""

    units: Fraction
    at_us: int


@dataclass
class ExactLimits:
    """The clock is given at each call, and may be set back: no time is then made up for."""

    levels: dict[tuple[str, str], _Level] = field(default_factory=dict)
    leases: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    used: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def take(self, demand: Demand, now_us: int) -> bool:
        fits = [
            *[self.bucket_fits(bucket, now_us) for bucket in demand.buckets],
            *[self._slot_fits(slot, now_us) for slot in demand.slots],
            *[self._budget_fits(budget, now_us) for budget in demand.budgets],
        ]
        if not all(fits):
            return False
        for bucket in demand.buckets:
            if bucket.cost:
                self._change(bucket, -bucket.cost, now_us)
        for slot in demand.slots:
            ends_us = now_us + round(min(slot.ttl_s, LONGEST_LEASE_S) * US)
            self.leases[slot.holder.name][slot.request_id] = ends_us
        for budget in demand.budgets:
            self.used[_span(budget, now_us)] += budget.cost
        return True

    def give_back(self, demand: Demand, taken_us: int, now_us: int) -> None:
        for bucket in demand.buckets:
            self._change(bucket, bucket.cost, now_us)
        for slot in demand.slots:
            self.leases[slot.holder.name].pop(slot.request_id, None)
        for budget in demand.budgets:
            self.used[_span(budget, taken_us)] -= budget.cost

    def available(self, bucket: Bucket, now_us: int) -> Fraction:
        level = self._level(bucket, now_us)
        flowed = Fraction(bucket.limit, 60) * Fraction(now_us - level.at_us, US)
        return min(Fraction(bucket.burst), level.units + flowed)

    def bucket_fits(self, bucket: Bucket, now_us: int) -> bool:
        return bucket.cost == 0 or self.available(bucket, now_us) >= bucket.cost

    def agrees(self, demand: Demand, standing: Standing, now_us: int) -> bool:
        """Whether the standing says how things stand here."""
        for bucket, told in zip(demand.buckets, standing.buckets, strict=True):
            available = self.available(bucket, now_us)
            full_s = (bucket.burst - available) / Fraction(bucket.limit, 60)
            if told.remaining != available // 1 or abs(told.reset_s - full_s) > 1e-9 * full_s:
                return False
        used = tuple(self.used[_span(budget, now_us)] for budget in demand.budgets)
        return standing.budgets_used == used

    def wait_is_exact(self, bucket: Bucket, wait_s: float, now_us: int) -> bool:
        """Whether it fits after that wait, and would not have a microsecond earlier."""
        later_us = now_us + round(wait_s * US)
        ahead = deepcopy(self)
        ahead.available(bucket, now_us)  # notices where the clock was set back
        return ahead.bucket_fits(bucket, later_us) and not ahead.bucket_fits(bucket, later_us - 1)

    def _level(self, bucket: Bucket, now_us: int) -> _Level:
        full = _Level(Fraction(bucket.burst), now_us)
        level = self.levels.setdefault((bucket.holder.name, bucket.unit), full)
        level.at_us = min(level.at_us, now_us)
        return level

    def _change(self, bucket: Bucket, units: int, now_us: int) -> None:
        changed = min(Fraction(bucket.burst), self.available(bucket, now_us) + units)
        self.levels[bucket.holder.name, bucket.unit] = _Level(changed, now_us)

    def _slot_fits(self, slot: Slot, now_us: int) -> bool:
        longest_us = now_us + round(LONGEST_LEASE_S * US)
        held = {
            request_id: min(ends_us, longest_us)
            for request_id, ends_us in self.leases[slot.holder.name].items()
            if ends_us > now_us
        }
        self.leases[slot.holder.name] = held
        return slot.request_id in held or len(held) < slot.limit

    def _budget_fits(self, budget: Budget, now_us: int) -> bool:
        left = budget.limit - self.used[_span(budget, now_us)]
        return left > 0 and budget.cost <= left


def _span(budget: Budget, now_us: int) -> tuple[str, str]:
    moment = datetime.fromtimestamp(now_us // US, UTC)
    day = f"{moment:%Y-%m-%d}" if budget.period == "daily" else f"{moment:%Y-%m}"
    return budget.holder.name, day
