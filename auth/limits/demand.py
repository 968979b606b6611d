"""What one call asks of a store of limits."""

from dataclasses import dataclass
from typing import Literal

from auth.calendar import Period
from auth.holder import Holder

Unit = Literal["requests", "tokens"]

DEFAULT_BURST_S = 60.0
LONGEST_LEASE_S = 900.0  # above the longest deadline of a request, 600 s

# Of a bucket that flows off by `limit` each us: debts are whole numbers, and no time is lost.
DEBT_OF_ONE = 60_000_000

# Units: some 150 million, whose debt a double, as Redis computes in, still holds exactly.
LARGEST_BURST = 2**53 // DEBT_OF_ONE


@dataclass(frozen=True)
class Bucket:
    """`cost` units of the holder's rate, which must be set. Cost 0 only looks: never refused."""

    holder: Holder
    unit: Unit
    cost: int

    @property
    def limit(self) -> int:
        """Units a minute."""
        limits = self.holder.limits
        return (limits.rpm if self.unit == "requests" else limits.tpm) or 1

    @property
    def burst(self) -> int:
        """Units that may be spent at once."""
        return burst_of(self.limit, self.holder.limits.burst_s)


@dataclass(frozen=True)
class Slot:
    """One of the holder's `max_concurrency`: a lease that ends by itself after `ttl_s` seconds.

    Asked for again under the same `request_id` it is the same slot, and lasts longer.
    """

    holder: Holder
    request_id: str
    ttl_s: float  # at most LONGEST_LEASE_S

    @property
    def limit(self) -> int:
        return self.holder.limits.max_concurrency or 1


@dataclass(frozen=True)
class Budget:
    """`cost` tokens of the holder's UTC day or month, by the store's clock.

    Cost 0 is refused only when nothing is left.
    """

    holder: Holder
    period: Period
    cost: int
    receipt: str = ""  # where it was counted, of `Standing.taken`; a store fills it in

    @property
    def limit(self) -> int:
        limits = self.holder.limits
        return (limits.daily_tokens if self.period == "daily" else limits.monthly_tokens) or 1


@dataclass(frozen=True)
class Demand:
    """Granted whole or not at all. No two buckets, slots or budgets of it may be the same."""

    buckets: tuple[Bucket, ...] = ()
    slots: tuple[Slot, ...] = ()
    budgets: tuple[Budget, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.buckets or self.slots or self.budgets)

    @property
    def parts(self) -> "tuple[Bucket | Slot | Budget, ...]":
        return (*self.buckets, *self.slots, *self.budgets)


def burst_of(limit: int, burst_s: float | None) -> int:
    """At least one unit, since a key that may do anything may do it one at a time; at most
    LARGEST_BURST."""
    return min(LARGEST_BURST, max(1, int(limit * (burst_s or DEFAULT_BURST_S) / 60)))
