"""Days and months in UTC, in which usage is added up. A day is an int: 20261129."""

import time
from datetime import UTC, datetime, timedelta
from typing import Literal

Period = Literal["daily", "monthly"]

DAY_S = 86_400


def day_of(epoch_s: float) -> int:
    moment = time.gmtime(epoch_s)
    return moment.tm_year * 10_000 + moment.tm_mon * 100 + moment.tm_mday


def start_of(day: int) -> int:
    """The first second of the day, since 1970."""
    return int(_moment(day).timestamp())


def days_after(day: int, count: int) -> int:
    """Raises OverflowError outside the years 1 to 9999."""
    moved = _moment(day) + timedelta(days=count)
    return moved.year * 10_000 + moved.month * 100 + moved.day


def first_day(period: Period, epoch_s: float) -> int:
    """Of the day, or the month, that holds this moment."""
    day = day_of(epoch_s)
    return day if period == "daily" else day // 100 * 100 + 1


def _moment(day: int) -> datetime:
    return datetime(day // 10_000, day // 100 % 100, day % 100, tzinfo=UTC)
