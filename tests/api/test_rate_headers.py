"""The headers that say what is left."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.rate_headers import duration, rate_headers
from auth.limits.standing import BucketStanding

_GO = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0001, "1ms"),
        (0.02, "20ms"),
        (0.9999, "1s"),
        (1, "1s"),
        (2.812, "2.812s"),
        (10, "10s"),
        (60, "1m0s"),
        (360, "6m0s"),
        (361.5, "6m1.5s"),
        (3600, "1h0m0s"),
        (86_399.25, "23h59m59.25s"),
    ],
)
def test_duration_is_written_as_go_does(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@given(st.floats(1, 1e6))
def test_duration_reads_back_and_never_promises_too_soon(seconds: float) -> None:
    match = _GO.fullmatch(duration(seconds))
    assert match is not None
    hours, minutes, rest = (float(group or 0) for group in match.groups())
    told_s = hours * 3600 + minutes * 60 + rest
    assert seconds - 1e-6 <= told_s <= seconds + 0.0021


def test_what_has_no_limit_has_no_header() -> None:
    assert rate_headers(None, None) == {}
    headers = rate_headers(None, BucketStanding(limit=100, remaining=40, reset_s=36.0))
    assert headers == {
        "x-ratelimit-limit-tokens": "100",
        "x-ratelimit-remaining-tokens": "40",
        "x-ratelimit-reset-tokens": "36s",
    }
