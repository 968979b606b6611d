"""Limits as a client meets them: refusals, headers, and what is counted after all."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx
import orjson
import pytest
from fake_service import SCORE, FakeService, word

from auth.key import generate_key
from auth.pepper import Peppers
from auth.record import KeyRecord, Limits
from auth.snapshot import Snapshot
from transport.messages import Lane
from transport.protocols import Backlog

WaitUntil = Callable[..., Awaitable[None]]


class Caller:
    """A key of the service, and the requests made with it."""

    def __init__(self, service: FakeService, limits: Limits, **record: Any) -> None:
        peppers = Peppers.generate()
        self.service = service
        self.key, self.kid = generate_key()
        values: dict[str, Any] = {
            "name": "caller",
            "kid": self.kid,
            "digest": peppers.digest(self.key, 1),
            "pv": 1,
            "created_at": 0,
            "limits": limits,
        }
        projects = {record["project"]: record.pop("project_limits")} if "project" in record else {}
        self.record = KeyRecord(**values | record)
        self.snapshot = Snapshot(revision=1, keys={self.kid: self.record}, projects=projects)
        service.authenticator.replace(self.snapshot, peppers)

    async def embed(self, text: str = word(1), **headers: str) -> httpx.Response:
        return await self.service.client.post(
            "/v1/embeddings",
            json={"model": "short", "input": text},
            headers={"authorization": f"Bearer {self.key}"} | headers,
        )

    async def post(self, path: str, body: object) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.key}"}
        return await self.service.client.post(path, json=body, headers=headers)


async def test_caller_without_limits_sees_no_header_of_them(service: FakeService) -> None:
    response = await Caller(service, Limits()).embed()
    assert response.status_code == 200
    assert not [name for name in response.headers if name.startswith("x-ratelimit")]


async def test_every_answer_says_what_is_left(service: FakeService) -> None:
    caller = Caller(service, Limits(rpm=10, tpm=100))
    response = await caller.embed()  # [CLS] w1 [SEP]: 3 tokens
    assert response.headers["x-ratelimit-limit-requests"] == "10"
    assert response.headers["x-ratelimit-remaining-requests"] == "9"
    assert response.headers["x-ratelimit-reset-requests"] in ("6s", "5.999s")
    assert response.headers["x-ratelimit-limit-tokens"] == "100"
    assert response.headers["x-ratelimit-remaining-tokens"] == "97"
    bad = await caller.post("/v1/embeddings", {"model": "short"})
    assert bad.status_code == 400
    assert bad.headers["x-ratelimit-remaining-requests"] == "8"
    assert bad.headers["x-ratelimit-remaining-tokens"] == "97"
    unknown = await caller.post("/v1/rerank", {"model": "x", "query": "a", "documents": ["b"]})
    assert unknown.status_code == 404
    assert unknown.headers["x-ratelimit-remaining-requests"] == "7"


async def test_request_beyond_its_rate_is_told_when_to_come_again(service: FakeService) -> None:
    caller = Caller(service, Limits(rpm=2, burst_s=30.0))
    assert (await caller.embed()).status_code == 200
    refused = await caller.embed()
    assert refused.status_code == 429
    error = refused.json()["error"]
    assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
    assert "requests per min (RPM): Limit 2, Used 1, Requested 1" in error["message"]
    assert refused.headers["retry-after"] == "30"
    assert 29_000 < int(refused.headers["retry-after-ms"]) <= 30_000
    assert "x-should-retry" not in refused.headers
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert service.value("ratelimited_total", limit="rpm") == 1


async def test_tokens_are_counted_exactly_and_refused_with_their_own_type(
    service: FakeService,
) -> None:
    caller = Caller(service, Limits(tpm=10))
    assert (await caller.embed(" ".join(map(word, range(6))))).status_code == 200  # 8 tokens
    refused = await caller.embed()
    assert refused.status_code == 429
    error = refused.json()["error"]
    assert (error["type"], error["code"]) == ("tokens", "rate_limit_exceeded")
    assert "for org/embed-m in your API key on tokens per min (TPM)" in error["message"]
    assert "Limit 10, Used 8, Requested 3" in error["message"]
    # 1 token too many flows off in 6 s.
    assert 5_000 < int(refused.headers["retry-after-ms"]) <= 6_000
    assert refused.headers["x-ratelimit-remaining-tokens"] == "2"


async def test_request_that_can_never_fit_says_so(service: FakeService) -> None:
    caller = Caller(service, Limits(tpm=4))
    refused = await caller.embed(" ".join(map(word, range(6))))
    assert refused.status_code == 429
    assert refused.headers["x-should-retry"] == "false"
    assert "retry-after" not in refused.headers
    assert "Request too large" in refused.json()["error"]["message"]
    assert (await caller.embed()).status_code == 200  # it counted for nothing


@pytest.mark.parametrize("period", ["daily", "monthly"])
async def test_spent_budget_is_a_quota_that_no_retry_mends(
    service: FakeService, period: str
) -> None:
    caller = Caller(service, Limits(**{f"{period}_tokens": 1_000}))
    service.used_tokens[caller.kid, period] = 995
    assert (await caller.embed()).status_code == 200
    assert service.value("budget_warnings_total", period=period) == 1
    for refused in (await caller.embed(), await caller.embed()):
        assert refused.status_code == 429
        error = refused.json()["error"]
        assert error["type"] == error["code"] == "insufficient_quota"
        assert "1000 tokens" in error["message"]
        assert refused.headers["x-should-retry"] == "false"
        assert "retry-after" not in refused.headers


async def test_project_limits_all_of_its_keys_together(service: FakeService) -> None:
    caller = Caller(
        service, Limits(rpm=100), project="search", project_limits=Limits(rpm=1, burst_s=60)
    )
    first = await caller.embed()
    assert first.headers["x-ratelimit-limit-requests"] == "1"  # the tighter of the two
    refused = await caller.embed()
    assert refused.status_code == 429
    assert "in your project" in refused.json()["error"]["message"]


async def test_no_more_requests_at_a_time_than_the_key_may(service: FakeService) -> None:
    caller = Caller(service, Limits(max_concurrency=1))
    service.engine.gate.clear()
    running = asyncio.create_task(caller.embed())
    while not service.engine.batches:
        await asyncio.sleep(0.005)
    refused = await caller.embed()
    assert refused.status_code == 429
    assert "concurrent requests" in refused.json()["error"]["message"]
    assert service.value("ratelimited_total", limit="concurrency") == 1
    service.engine.gate.set()
    assert (await running).status_code == 200
    for _ in range(3):  # the slot is free the moment the answer is there
        assert (await caller.embed()).status_code == 200


async def test_those_refused_together_are_told_to_come_back_apart(service: FakeService) -> None:
    caller = Caller(service, Limits(max_concurrency=1))
    service.engine.gate.clear()
    running = asyncio.create_task(caller.embed())
    while not service.engine.batches:
        await asyncio.sleep(0.005)
    refused = await asyncio.gather(*[caller.embed() for _ in range(20)])
    waits_ms = {int(response.headers["retry-after-ms"]) for response in refused}
    assert len(waits_ms) > 10
    assert all(500 <= wait_ms <= 1_501 for wait_ms in waits_ms)
    service.engine.gate.set()
    await running


async def test_what_fails_or_is_too_late_costs_nothing(service: FakeService) -> None:
    caller = Caller(service, Limits(rpm=5, tpm=50, max_concurrency=2, daily_tokens=50))
    service.engine.gate.clear()
    late = await caller.embed(**{"x-florilege-timeout-ms": "50"})
    assert late.status_code == 504
    service.engine.gate.set()
    response = await caller.embed()
    assert response.headers["x-ratelimit-remaining-requests"] == "4"
    assert response.headers["x-ratelimit-remaining-tokens"] == "47"


async def test_bad_requests_are_requests(service: FakeService) -> None:
    caller = Caller(service, Limits(rpm=2))
    for _ in range(2):
        assert (await caller.post("/v1/embeddings", {"model": "short"})).status_code == 400
    assert (await caller.embed()).status_code == 429


async def test_refused_requests_do_not_use_up_the_rate(service: FakeService) -> None:
    """Else a client that retries too early would never get through."""
    caller = Caller(service, Limits(rpm=1_000, tpm=10))
    await caller.embed(" ".join(map(word, range(7))))
    for _ in range(20):
        refused = await caller.embed()
        assert refused.status_code == 429
    assert int(refused.headers["x-ratelimit-remaining-requests"]) >= 998


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/v1/embeddings", {"model": "short", "input": [word(1), word(2)]}, "embed"),
        ("/embeddings", {"model": "short", "input": [[4, 5]], "token_input": "native"}, "embed"),
        ("/v1/rerank", {"model": SCORE.id, "query": "a", "documents": ["b", "c"]}, "rerank"),
        ("/v2/rerank", {"model": SCORE.id, "query": "a", "documents": ["b", "c"]}, "rerank"),
        ("/rerank", {"model": SCORE.id, "query": "a", "texts": ["b", "c"]}, "rerank"),
        ("/v1/score", {"model": SCORE.id, "text_1": "a", "text_2": ["b"]}, "rerank"),
        ("/v1/rerank", {"model": "short", "query": "a", "documents": ["b"]}, "rerank"),
    ],
)
async def test_every_route_is_limited_and_counted_alike(
    service: FakeService, path: str, body: dict[str, object], kind: str
) -> None:
    caller = Caller(service, Limits(tpm=1_000))
    response = await caller.post(path, body)
    assert response.status_code == 200, response.text
    left = int(response.headers["x-ratelimit-remaining-tokens"])
    (use,) = service.usage._counts
    counted = service.usage._counts[use]
    assert (use.kid, use.kind, counted.requests) == (caller.kid, kind, 1)
    assert counted.tokens == 1_000 - left > 0
    usage = response.json().get("usage", {}) if isinstance(response.json(), dict) else {}
    assert usage.get("total_tokens", counted.tokens) == counted.tokens


async def test_failed_requests_are_not_usage(service: FakeService) -> None:
    caller = Caller(service, Limits(tpm=10))
    await caller.post("/v1/embeddings", {"model": "short"})
    await caller.embed(" ".join(map(word, range(20))))
    assert not service.usage._counts


async def test_limits_change_with_the_next_snapshot(service: FakeService) -> None:
    caller = Caller(service, Limits(rpm=1))
    assert (await caller.embed()).status_code == 200
    assert (await caller.embed()).status_code == 429
    record = replace(caller.record, limits=Limits())
    peppers = service.authenticator._peppers
    service.authenticator.replace(Snapshot(revision=2, keys={caller.kid: record}), peppers)
    assert (await caller.embed()).status_code == 200


class Leaver:
    """A caller that sends a request and hangs up when it is told to."""

    def __init__(self, caller: Caller, body: bytes | None) -> None:
        """`body` None: it never comes."""
        self.caller = caller
        self.leave = asyncio.Event()
        self.statuses: list[int] = []
        self._messages = [] if body is None else [{"type": "http.request", "body": body}]

    async def request(self) -> None:
        headers = [(b"authorization", f"Bearer {self.caller.key}".encode())]
        path = "/v1/embeddings"
        scope = {"type": "http", "method": "POST", "scheme": "http", "query_string": b""}
        scope |= {"path": path, "raw_path": path.encode(), "headers": headers}
        scope |= {"asgi": {"version": "3.0"}, "http_version": "1.1", "client": ("test", 1)}
        await self.caller.service.app(scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        if self._messages:
            return self._messages.pop()
        await self.leave.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.statuses.append(message["status"])


BODY = orjson.dumps({"model": "short", "input": word(1)})
WITH_ALL = Limits(rpm=5, tpm=50, max_concurrency=1, daily_tokens=50)


async def test_hanging_up_on_a_worker_costs_what_the_answer_would(
    service: FakeService, wait_until: WaitUntil
) -> None:
    """Else one request a minute could keep the engine busy for ever."""
    caller = Caller(service, WITH_ALL)
    service.engine.gate.clear()
    leaver = Leaver(caller, BODY)
    running = asyncio.create_task(leaver.request())
    await wait_until(lambda: service.transport.outstanding == 1)
    leaver.leave.set()
    await running
    assert leaver.statuses == [499]
    service.engine.gate.set()
    response = await caller.embed()  # its slot is free
    assert response.status_code == 200
    assert response.headers["x-ratelimit-remaining-requests"] == "3"
    assert response.headers["x-ratelimit-remaining-tokens"] == "44"


@pytest.mark.parametrize("arrived", [False, True])
async def test_hanging_up_before_any_work_costs_nothing(
    service: FakeService, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    caller = Caller(service, WITH_ALL)
    admitting = asyncio.Event()

    async def never(model: str, lane: Lane) -> Backlog:
        admitting.set()
        await asyncio.Event().wait()
        raise AssertionError

    with monkeypatch.context() as patched:
        patched.setattr(service.transport, "backlog", never)
        leaver = Leaver(caller, BODY if arrived else None)
        running = asyncio.create_task(leaver.request())
        await wait_until(lambda: admitting.is_set() or not arrived)
        leaver.leave.set()
        await running
    assert leaver.statuses == [499]
    response = await caller.embed()
    assert response.headers["x-ratelimit-remaining-requests"] == "4"
    assert response.headers["x-ratelimit-remaining-tokens"] == "47"
