"""Headers of the caller's rates, on answers of requests that count towards no limit."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from admin_side import running_admin
from fake_service import EMBED, SCORE, FakeService, make_service, word

from api.app import create_app
from auth.key import generate_key
from auth.limits.demand import Demand
from auth.limits.memory import MemoryLimits
from auth.limits.standing import Standing
from auth.pepper import Peppers
from auth.record import KeyRecord, Limits
from auth.snapshot import Snapshot

RATES = {
    f"x-ratelimit-{what}-{unit}": value
    for unit, values in (("requests", ("10", "10", "0s")), ("tokens", ("100", "100", "0s")))
    for what, value in zip(("limit", "remaining", "reset"), values, strict=True)
}


class Asked(MemoryLimits):
    """Limits that say what they are asked for."""

    def __init__(self, service: FakeService) -> None:
        super().__init__(service._used)
        self.demands: list[Demand] = []

    async def take(self, demand: Demand) -> Standing:
        self.demands.append(demand)
        return await super().take(demand)


class Caller:
    """A key of the service, and a client that presents it."""

    def __init__(self, service: FakeService, limits: Limits, scopes: frozenset[str]) -> None:
        peppers = Peppers.generate()
        key, kid = generate_key()
        record = KeyRecord(
            name="caller",
            kid=kid,
            digest=peppers.digest(key, 1),
            pv=1,
            created_at=0,
            scopes=scopes,
            models=frozenset({EMBED.id}),
            limits=limits,
        )
        service.authenticator.replace(Snapshot(revision=1, keys={kid: record}), peppers)
        self.store = Asked(service)
        made = make_service(service.gateway, service.metrics, limits=self.store)
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(create_app(made, service.authenticator, "0")),
            base_url="http://test",
            headers={"authorization": f"Bearer {key}"},
        )

    async def embed(self, text: str = word(1)) -> httpx.Response:
        return await self.client.post("/v1/embeddings", json={"model": EMBED.id, "input": text})


CallerOf = Callable[..., Caller]


@pytest.fixture
def caller_of(service: FakeService) -> CallerOf:
    def make(limits: Limits, scopes: frozenset[str] = frozenset({"embed"})) -> Caller:
        return Caller(service, limits, scopes)

    return make


def rates_of(response: httpx.Response) -> dict[str, str]:
    return {n: value for n, value in response.headers.items() if n.startswith("x-ratelimit")}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/models", 200),
        ("GET", f"/v1/models/{EMBED.id}", 200),
        ("GET", "/v1/models/none", 404),
        ("GET", f"/v1/models/{SCORE.id}", 403),
        ("POST", "/v1/rerank", 403),  # not of its scope
        ("GET", "/v1/embeddings", 405),
        ("GET", "/v1/nowhere", 404),
        ("GET", "/openapi.json", 200),
    ],
)
async def test_answer_of_what_is_not_limited_tells_the_rates_and_costs_nothing(
    caller_of: CallerOf, method: str, path: str, status: int
) -> None:
    caller = caller_of(Limits(rpm=10, tpm=100, max_concurrency=1, daily_tokens=1_000))
    for _ in range(2):
        response = await caller.client.request(method, path)
        assert response.status_code == status
        assert rates_of(response) == RATES
    assert len(caller.store.demands) == 2


async def test_rates_are_those_of_what_was_used_elsewhere(caller_of: CallerOf) -> None:
    caller = caller_of(Limits(rpm=10, tpm=100))
    await caller.embed()  # [CLS] w1 [SEP]: 3 tokens
    told = rates_of(await caller.client.get("/v1/models"))
    assert told["x-ratelimit-remaining-requests"] == "9"
    assert told["x-ratelimit-remaining-tokens"] == "97"


async def test_callers_whose_limits_are_spent_may_still_look(caller_of: CallerOf) -> None:
    caller = caller_of(Limits(rpm=1, daily_tokens=3))
    assert (await caller.embed()).status_code == 200
    assert (await caller.embed()).status_code == 429
    response = await caller.client.get("/v1/models")
    assert response.status_code == 200
    assert response.headers["x-ratelimit-remaining-requests"] == "0"


@pytest.mark.parametrize("limits", [Limits(), Limits(max_concurrency=1, monthly_tokens=10)])
async def test_store_is_not_asked_about_keys_without_rates(
    caller_of: CallerOf, limits: Limits
) -> None:
    caller = caller_of(limits)
    response = await caller.client.get("/v1/models")
    assert response.status_code == 200
    assert not rates_of(response)
    assert not caller.store.demands


def _accepted(caller: Caller) -> Awaitable[httpx.Response]:
    return caller.embed()


def _refused_of_its_tokens(caller: Caller) -> Awaitable[httpx.Response]:
    return caller.embed(" ".join(map(word, range(20))))


@pytest.mark.parametrize(("ask", "status"), [(_accepted, 200), (_refused_of_its_tokens, 429)])
async def test_request_that_is_counted_asks_no_more_than_it_must(
    caller_of: CallerOf, ask: Callable[[Caller], Awaitable[httpx.Response]], status: int
) -> None:
    caller = caller_of(Limits(rpm=10, tpm=10))
    response = await ask(caller)
    assert (response.status_code, len(rates_of(response))) == (status, 6)
    assert len(caller.store.demands) == 2  # before its body is read, and once its tokens are known


async def test_request_refused_at_the_door_asks_once(caller_of: CallerOf) -> None:
    caller = caller_of(Limits(rpm=1, tpm=10))
    await caller.embed()
    caller.store.demands.clear()
    refused = await caller.embed()
    assert (refused.status_code, len(rates_of(refused))) == (429, 6)
    assert len(caller.store.demands) == 1


async def test_stranger_has_no_rates(caller_of: CallerOf) -> None:
    caller = caller_of(Limits(rpm=10))
    for key in ("", "Bearer sk-wrong"):
        response = await caller.client.get("/v1/models", headers={"authorization": key})
        assert response.status_code == 401
        assert not rates_of(response)
    assert not caller.store.demands


async def test_admin_port_limits_nobody(tmp_path: Path) -> None:
    async with running_admin(tmp_path) as admin:
        made = await admin.create(scopes=["admin"], limits={"rpm": 1})
        client = admin.client_of(made["key"])
        for _ in range(3):
            response = await client.get("/v1/admin/keys")
            assert response.status_code == 200
            assert not rates_of(response)
        await client.aclose()
