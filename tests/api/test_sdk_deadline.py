"""The headers in which the installed OpenAI SDK tells its timeout are those that we read."""

import httpx
import pytest
from openai import OpenAI

from api.deadline import timeout_s

EMPTY = {
    "object": "list",
    "data": [],
    "model": "m",
    "usage": {"prompt_tokens": 1, "total_tokens": 1},
}
DEFAULT_S, CAP_S = 60.0, 600.0


@pytest.mark.parametrize(
    ("timeout", "expected_s"),
    [(7.5, 7.5), (httpx.Timeout(3.0, read=12.0), 12.0), (10_000.0, CAP_S), (None, DEFAULT_S)],
)
def test_timeout_of_the_sdk_is_the_deadline(
    timeout: float | httpx.Timeout | None, expected_s: float
) -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json=EMPTY)

    with (
        httpx.Client(transport=httpx.MockTransport(answer)) as http,
        OpenAI(base_url="http://gateway/v1", api_key="k", http_client=http) as sdk,
    ):
        sdk.embeddings.create(model="m", input="a", encoding_format="float", timeout=timeout)
    (request,) = sent
    assert timeout_s(request.headers, DEFAULT_S, CAP_S) == expected_s
