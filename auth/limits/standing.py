"""What a store of limits answers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from auth.limits.demand import DEBT_OF_ONE, Bucket, Budget, Demand, Slot
from auth.limits.period import span_of

if TYPE_CHECKING:
    from auth.limits.store import LimitStore


@dataclass(frozen=True)
class BucketStanding:
    """How a bucket stands after the call."""

    limit: int  # units a minute
    remaining: int  # units that may be spent now
    reset_s: float  # until it is full again

    @classmethod
    def of(cls, limit: int, burst: int, debt: int) -> "BucketStanding":
        """`debt` in units · DEBT_OF_ONE."""
        remaining = max(0, burst * DEBT_OF_ONE - debt) // DEBT_OF_ONE
        return cls(limit, remaining, debt / limit / 1e6)


@dataclass(frozen=True)
class Refusal:
    """The one that refused; of several, one that can never fit, else the one to wait longest for.

    `used` is in units, slots or tokens. `wait_s` is when to ask again: exact for buckets, the end
    of the period for budgets, a guess of a second at most for slots.
    """

    of: Bucket | Slot | Budget
    used: int
    wait_s: float
    never: bool  # more than the burst, or than the whole budget: waiting does not help
    resets_at: float | None = None  # seconds since 1970, the end of a budget's period

    @classmethod
    def told(cls, of: Bucket | Slot | Budget, used: int, wait_us: int, now_us: int) -> "Refusal":
        """`now_us` by the store's clock. A wait that helps nothing is told as 0."""
        never = (isinstance(of, Bucket) and of.cost > of.burst) or (
            isinstance(of, Budget) and of.cost > of.limit
        )
        resets_at = None
        if isinstance(of, Budget):
            resets_at = float(span_of(of.period, now_us / 1e6).end)
        return cls(of, used, 0.0 if never else wait_us / 1e6, never, resets_at)


@dataclass(frozen=True)
class Standing:
    """The answer to a demand. Where there is a refusal nothing was counted."""

    refusal: Refusal | None
    buckets: tuple[BucketStanding, ...]  # in the order of the demand
    budgets_used: tuple[int, ...]  # tokens of each budget, likewise
    taken: Demand  # what was counted, to be given back: empty where refused
    by: "LimitStore"  # who counted it: to be given back there
