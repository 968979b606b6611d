"""OpenAI's shape of usage: buckets of a day, in UTC, some to a page."""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from api.admin.query import listed, refuse_unknown, whole_number
from api.errors import ApiError
from api.fields import missing
from auth.calendar import DAY_S, day_of, days_after, start_of
from auth.record import LATEST
from auth.usage.query import Dimension, UsageQuery, UsageTotal

# OpenAI's name of what may be grouped by. We know no users: that one is always null.
GROUPS: dict[str, Dimension | None] = {
    "project_id": "project",
    "user_id": None,
    "api_key_id": "key",
    "model": "model",
}
FILTERS = ("project_ids", "api_key_ids", "models")

_NAMES = ("start_time", "end_time", "bucket_width", "limit", "page", "group_by", *FILTERS)
_KNOWN = frozenset(_NAMES) | {f"{name}[]" for name in ("group_by", *FILTERS)}
_BUCKETS = (1, 31)  # a page
_TIMES = (0, LATEST - 32 * DAY_S)  # a page later the calendar still goes on
_DEFAULT_BUCKETS = 7
_TOKEN = "page_"  # noqa: S105  of a page


@dataclass(frozen=True, kw_only=True)
class UsageRequest:
    """One page of buckets. Days are ints: 20261129."""

    first: int  # day of the page's first bucket
    after: int  # the day after its last
    next_day: int | None  # where the next page begins; None: there is none
    query: UsageQuery


def parse_usage_request(request: Request, now: float) -> UsageRequest:
    """Raises ApiError."""
    refuse_unknown(request.query_params.keys(), _KNOWN)
    if request.query_params.get("bucket_width", "1d") != "1d":
        message = "Invalid value for 'bucket_width'. Supported values: ['1d']."
        raise ApiError("invalid_value", message, "bucket_width")
    limit = whole_number(request, "limit", _BUCKETS) or _DEFAULT_BUCKETS
    start_s = whole_number(request, "start_time", _TIMES)
    if start_s is None:
        raise missing("start_time")
    end_s = whole_number(request, "end_time", _TIMES)
    if end_s is None:
        end_s = max(int(now), start_s) + 1
    if end_s <= start_s:
        message = "Invalid value for 'end_time': after 'start_time'."
        raise ApiError("invalid_value", message, "end_time")
    end = days_after(day_of(end_s - 1), 1)
    first = _first_day(request, day_of(start_s), end)
    after = min(days_after(first, limit), end)
    query = UsageQuery(
        by=("day", *_groups(request)),
        since=first,
        until=after,
        keys=listed(request, "api_key_ids"),
        projects=listed(request, "project_ids"),
        models=listed(request, "models"),
        kind="embed",
    )
    return UsageRequest(
        first=first, after=after, next_day=after if after < end else None, query=query
    )


def usage_page(asked: UsageRequest, totals: Iterable[UsageTotal]) -> dict[str, Any]:
    """Every day has its bucket, with or without results."""
    results: dict[int, list[dict[str, Any]]] = {}
    day = asked.first
    while day < asked.after:
        results[day] = []
        day = days_after(day, 1)
    for total in totals:
        if total.day is not None:
            results[total.day].append(_result(total))
    data = [
        {
            "object": "bucket",
            "start_time": start_of(day),
            "end_time": start_of(day) + DAY_S,
            "results": of_day,
        }
        for day, of_day in results.items()
    ]
    return {
        "object": "page",
        "data": data,
        "has_more": asked.next_day is not None,
        "next_page": None if asked.next_day is None else _token_of(asked.next_day),
    }


def _result(total: UsageTotal) -> dict[str, Any]:
    return {
        "object": "organization.usage.embeddings.result",
        "input_tokens": total.tokens,
        "num_model_requests": total.requests,
        # '' is anonymous, or no project: null, as what is not grouped by.
        "project_id": total.project or None,
        "user_id": None,
        "api_key_id": total.key or None,
        "model": total.model,
    }


def _groups(request: Request) -> list[Dimension]:
    groups = []
    for name in sorted(listed(request, "group_by") or ()):
        if name not in GROUPS:
            message = f"Invalid value for 'group_by'. Supported values: {list(GROUPS)}."
            raise ApiError("invalid_value", message, "group_by")
        dimension = GROUPS[name]
        if dimension is not None:
            groups.append(dimension)
    return groups


def _first_day(request: Request, start: int, end: int) -> int:
    """Of the page: the token's, else the first of all."""
    token = request.query_params.get("page")
    if token is None:
        return start
    day = _day_of_token(token)
    if day is None or not start <= day < end:
        message = "Invalid value for 'page': not a 'next_page' of this query."
        raise ApiError("invalid_value", message, "page")
    return day


def _token_of(day: int) -> str:
    return _TOKEN + base64.urlsafe_b64encode(str(start_of(day)).encode()).decode().rstrip("=")


def _day_of_token(token: str) -> int | None:
    encoded = token.removeprefix(_TOKEN)
    try:
        text = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode("ascii")
        seconds = int(text)
    except (binascii.Error, ValueError):
        return None
    return day_of(seconds) if 0 <= seconds <= _TIMES[1] else None
