"""Admission, deadlines, lanes and errors: the rules that need no server."""

from typing import get_args

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.admission import Refused, admit
from api.deadline import asked_lane, timeout_s
from api.errors import CASES, ApiError, from_job
from transport.messages import ErrorCode, JobError
from transport.protocols import Backlog


@given(st.integers(0, 10**7), st.floats(1, 1e6), st.floats(0.01, 100), st.floats(0.01, 600))
def test_request_is_refused_exactly_when_it_would_wait_too_long(
    tokens: int, speed: float, max_queue_s: float, left_s: float
) -> None:
    if tokens / speed <= min(max_queue_s, left_s):
        admit(Backlog(tokens, speed), max_queue_s, left_s)
        return
    with pytest.raises(Refused) as caught:
        admit(Backlog(tokens, speed), max_queue_s, left_s)
    assert caught.value.retry_after_s > 0


def test_idle_server_refuses_nothing() -> None:
    admit(Backlog(0, 1.0), max_queue_s=0.001, left_s=0.001)


def test_everything_is_admitted_until_the_speed_is_known() -> None:
    admit(Backlog(10**9, None), max_queue_s=1, left_s=1)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 60),
        ({"x-florilege-timeout-ms": "1500"}, 1.5),
        ({"x-florilege-timeout-ms": "9000000"}, 600),
        ({"x-stainless-read-timeout": "30"}, 30),
        ({"x-stainless-timeout": "12"}, 12),
        ({"x-stainless-read-timeout": "600"}, 600),
        ({"x-stainless-timeout": "not given"}, 60),
        ({"x-florilege-timeout-ms": "5", "x-stainless-timeout": "12"}, 0.005),
    ],
)
def test_deadline_is_the_clients_own_if_it_sends_one(
    headers: dict[str, str], seconds: float
) -> None:
    assert timeout_s(headers, default_s=60, cap_s=600) == seconds


@pytest.mark.parametrize("value", ["", "soon", "-1", "0", "nan", "inf"])
def test_timeout_that_is_no_time_is_refused(value: str) -> None:
    with pytest.raises(ApiError):
        timeout_s({"x-florilege-timeout-ms": value}, 60, 600)


def test_lane_is_the_headers_else_the_keys_else_undecided() -> None:
    assert asked_lane({}, None) is None
    assert asked_lane({}, "bulk") == "bulk"
    assert asked_lane({"x-florilege-lane": "online"}, "bulk") == "online"
    with pytest.raises(ApiError) as caught:
        asked_lane({"x-florilege-lane": "fast"}, None)
    assert caught.value.param == "x-florilege-lane"


@pytest.mark.parametrize("case", sorted(CASES))
def test_every_error_has_openais_four_keys_and_the_siblings_of_others(case: str) -> None:
    body = orjson.loads(ApiError(case, "why", param="p").body())
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["code"] is None or isinstance(body["error"]["code"], str)
    assert body["message"] == body["detail"] == "why"


def test_no_row_is_422() -> None:
    assert 422 not in {row.status for row in CASES.values()}


@pytest.mark.parametrize("code", get_args(ErrorCode))
def test_every_job_error_has_a_row(code: ErrorCode) -> None:
    error = from_job(JobError(code))
    assert error.row.status >= 400
    assert (error.retry_after_s is not None) == (error.row.status == 503)


@pytest.mark.parametrize(
    ("wait_s", "seconds", "milliseconds"),
    [(0.02, "1", "20"), (1.0, "1", "1000"), (2.3, "3", "2300"), (500.0, "60", "60000")],
)
def test_retry_after_stays_within_what_sdks_obey(
    wait_s: float, seconds: str, milliseconds: str
) -> None:
    headers = ApiError("overloaded", "", retry_after_s=wait_s).headers()
    assert headers == {"retry-after": seconds, "retry-after-ms": milliseconds}


def test_a_full_server_is_left_alone_for_a_second_and_not_by_all_until_the_same_moment() -> None:
    waits = {from_job(JobError("overloaded", retry_after_s=0.02)).retry_after_s for _ in range(50)}
    assert len(waits) > 40
    assert all(wait_s is not None and 1.0 <= wait_s <= 1.25 for wait_s in waits)


def test_what_must_not_be_retried_says_so() -> None:
    for case in ("deadline", "poison"):
        assert ApiError(case, "").headers() == {"x-should-retry": "false"}
