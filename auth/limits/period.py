"""The UTC days and months of budgets."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from auth.calendar import DAY_S, Period


@dataclass(frozen=True)
class Span:
    """One day or month. Its bounds are whole seconds since 1970; the end is not of it."""

    label: str  # yyyymmdd, or yyyymm
    start: int
    end: int

    def holds(self, now: float) -> bool:
        return self.start <= now < self.end


def span_of(period: Period, now: float) -> Span:
    """The day or month that `now`, seconds since 1970, is of."""
    return _span_of_day(period, int(now // DAY_S))


@lru_cache(maxsize=64)
def _span_of_day(period: Period, number: int) -> Span:
    day = datetime.fromtimestamp(number * DAY_S, UTC)
    if period == "daily":
        return _span(f"{day:%Y%m%d}", day, day + timedelta(days=1))
    first = day.replace(day=1)
    # 32 days after the first of a month lie in the next.
    return _span(f"{first:%Y%m}", first, (first + timedelta(days=32)).replace(day=1))


def _span(label: str, start: datetime, end: datetime) -> Span:
    return Span(label, int(start.timestamp()), int(end.timestamp()))
