"""The table of errors, its page, and the words of refusals."""

import re
from pathlib import Path
from typing import Any

import pytest

from api.errors import CASES, Case, forbidden_model, from_limit, from_store
from auth.errors import KeyRefused
from auth.limits.exceeded import LimitExceeded

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def cases_of_the_page() -> list[Case]:
    """The rows of the section "Errors": status, type, code, x-should-retry."""
    section = PAGE.read_text().partition("\n## Errors\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:5] for line in section.splitlines() if re.match(r"\| \d", line)]
    cases = []
    for row in rows:
        status, kind, code, retry = (cell.strip() for cell in row)
        should_retry = {"": None, "true": True, "false": False}[retry]
        cases.append(Case(int(status), kind, None if code == "null" else code, should_retry))
    return cases


def test_page_has_a_row_of_each_error_and_no_other() -> None:
    told = cases_of_the_page()
    assert sorted(map(str, told)) == sorted(map(str, set(CASES.values())))
    assert [case.status for case in told] == sorted(case.status for case in told)


def exceeded(**changes: Any) -> LimitExceeded:
    values: dict[str, Any] = {
        "limit": "tpm",
        "holder_kind": "key",
        "bound": 1_000,
        "most": 16,
        "used": 3,
        "requested": 24,
        "wait_s": 2.5,
        "never": False,
        "resets_at": None,
        "requests": None,
        "tokens": None,
    }
    return LimitExceeded(**values | changes)


def test_request_above_the_burst_is_told_the_burst() -> None:
    error = from_limit(exceeded(never=True), "m")
    assert error.message == (
        "Request too large for m in your API key on tokens per min (TPM): Limit 1000, at most 16 "
        "at once, Requested 24. It can never fit."
    )
    assert error.headers() == {"x-should-retry": "false"}


@pytest.mark.parametrize(("limit", "period"), [("daily", "day"), ("monthly", "month")])
@pytest.mark.parametrize("never", [False, True])
def test_request_above_a_whole_budget_is_told_that_it_can_never_fit(
    limit: str, period: str, never: bool
) -> None:
    error = from_limit(exceeded(limit=limit, bound=20, most=20, never=never), "m")
    assert f"20 tokens a {period} (UTC), used 3, requested 24." in error.message
    assert ("can never fit" in error.message) == never
    assert (error.case, error.headers()) == ("quota_spent", {"x-should-retry": "false"})


def test_wait_is_told_in_seconds_and_milliseconds_and_is_a_minute_at_most() -> None:
    told = from_limit(exceeded(), "m").headers()
    assert told == {"retry-after": "3", "retry-after-ms": "2500"}
    told = from_limit(exceeded(wait_s=3_600.0), "m").headers()
    assert told == {"retry-after": "60", "retry-after-ms": "60000"}


def test_refused_field_is_named_as_it_is_spelt() -> None:
    error = from_store(KeyRefused("above zero", "rpm"))
    assert (error.message, error.param) == ("Invalid value for 'rpm': above zero.", "rpm")
    error = from_store(KeyRefused("key a is revoked"))
    assert (error.message, error.param) == ("Key a is revoked.", None)


def test_forbidden_model_is_called_what_the_caller_called_it() -> None:
    assert "`short`" in forbidden_model("short").message
    assert "`" not in forbidden_model(None).message
    assert len(forbidden_model("x" * 10_000).message) < 300
