"""What holds for every request: access, ids, headers, errors, logs, metrics, disconnects."""

import asyncio
import io
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fake_service import EMBED, SCORE, FakeService, word
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from api.access import presented_key
from api.errors import INTERNAL_MESSAGE
from auth.errors import InvalidKey, MissingKey
from auth.principal import Principal
from observability.logs import configure_logs

WaitUntil = Callable[..., Awaitable[None]]


class FakeAuthenticator:
    """Knows two keys."""

    def __init__(self) -> None:
        both = frozenset({"embed", "rerank"})
        self.principals = {
            "all": Principal("k1", "all", both),
            "narrow": Principal("k2", "narrow", frozenset({"embed"}), frozenset({SCORE.id})),
            "short": Principal("k3", "short", both, frozenset({"short"})),
        }

    def authenticate(self, presented: str | None) -> Principal:
        if not presented:
            raise MissingKey
        if presented not in self.principals:
            raise InvalidKey
        return self.principals[presented]


@pytest.fixture
def closed(service: FakeService) -> FakeService:
    """The service, asking for keys."""
    fake = FakeAuthenticator()
    service.authenticator.authenticate = fake.authenticate  # type: ignore[method-assign]
    return service


def routes_of(service: FakeService) -> list[BaseRoute]:
    def walk(routes: Any) -> list[BaseRoute]:
        found = []
        for route in routes:
            inner = getattr(route, "routes", None) or getattr(
                getattr(route, "original_router", None), "routes", None
            )
            found += walk(inner) if inner else [route]
        return found

    return walk(service.app.routes)


async def test_every_route_is_closed_unless_it_is_listed_open(closed: FakeService) -> None:
    paths = {
        (method, getattr(route, "path", ""))
        for route in routes_of(closed)
        for method in getattr(route, "methods", None) or {"GET"}
    }
    assert ("POST", "/v1/embeddings") in paths
    assert ("GET", "/openapi.json") in paths
    for method, path in paths:
        url = path.replace("{model_id:path}", EMBED.id)
        response = await closed.client.request(method, url)
        if path in {"/health/live", "/health/ready"}:
            assert response.status_code in (200, 405), path
        else:
            assert response.status_code == 401, path


async def test_url_that_does_not_exist_is_closed_too(closed: FakeService) -> None:
    assert (await closed.client.get("/v1/foo")).status_code == 401


async def test_no_key_and_a_wrong_key_have_one_body_each(closed: FakeService) -> None:
    none = await closed.client.get("/v1/models")
    wrong = await closed.client.get(
        "/v1/models", headers={"authorization": "Bearer sk-secret-text"}
    )
    assert none.json()["error"]["message"].startswith("You didn't provide an API key.")
    assert none.json()["error"]["code"] is None
    assert wrong.json()["error"]["code"] == "invalid_api_key"
    assert "sk-secret" not in wrong.text
    assert wrong.headers["x-request-id"]


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({"authorization": "Bearer all"}, "all"),
        ({"authorization": "bearer  all "}, "all"),
        ({"api-key": "all"}, "all"),
        ({"x-api-key": "all"}, "all"),
        ({"authorization": "Basic abc", "x-api-key": "all"}, "all"),
        ({"authorization": "Bearer "}, None),
        ({"api-key": " all "}, "all"),
        ({"x-api-key": "all\t"}, "all"),
        ({"api-key": " ", "x-api-key": "all "}, "all"),
        ({"authorization": "Bearer ", "api-key": " "}, None),
        ({}, None),
    ],
)
def test_key_is_taken_from_any_of_three_headers(headers: dict[str, str], key: str | None) -> None:
    assert presented_key(headers) == key


async def test_key_reaches_only_its_scopes_and_models(closed: FakeService) -> None:
    closed.client.headers["authorization"] = "Bearer narrow"
    rerank = await closed.rerank(query=word(1), documents=[word(2)])
    embed = await closed.embed(input=word(1))
    models = await closed.client.get("/v1/models")
    assert (rerank.status_code, rerank.json()["error"]["code"]) == (403, "insufficient_permissions")
    assert (embed.status_code, embed.json()["error"]["code"]) == (403, "model_not_found")
    assert [model["id"] for model in models.json()["data"]] == [SCORE.id]


async def test_key_without_the_model_is_told_no_more_than_the_name_it_asked_for(
    closed: FakeService,
) -> None:
    closed.client.headers["authorization"] = "Bearer narrow"
    embed = await closed.embed(input=word(1), model="short")
    model = await closed.client.get("/v1/models/short")
    closed.client.headers["authorization"] = "Bearer short"
    score = await closed.rerank(query=word(1), documents=[word(2)], model=None)
    for response, named in ((embed, "`short`"), (model, "`short`"), (score, "without one")):
        assert response.status_code == 403
        error = response.json()["error"]
        assert (error["code"], error["param"]) == ("model_not_found", "model")
        assert named in error["message"]
        assert "org/" not in response.text
        assert "x-florilege-dtype" not in response.headers
    assert (await closed.embed(input=word(1))).status_code == 200  # an alias is access, too


async def test_every_answer_has_an_id_and_its_timings(service: FakeService) -> None:
    for response in (await service.embed(input=word(1)), await service.client.get("/nowhere")):
        assert re.fullmatch(r"req_[0-9a-f]{12}7[0-9a-f]{19}", response.headers["x-request-id"])
        assert response.headers["openai-version"] == "2020-10-01"
        assert int(response.headers["openai-processing-ms"]) >= 0
    stages = re.findall(
        r"(\w+);dur=", (await service.embed(input=word(1))).headers["server-timing"]
    )
    assert stages == ["auth", "tokenize", "queue", "infer", "reply", "encode"]


async def test_unknown_url_says_which_one_was_probably_meant(service: FakeService) -> None:
    response = await service.client.post("/v1/v1/embeddings", json={})
    assert response.status_code == 404
    message = response.json()["error"]["message"]
    assert message == "Invalid URL (POST /v1/v1/embeddings). Did you mean /v1/embeddings?"


async def test_wrong_method_names_the_right_ones(service: FakeService) -> None:
    response = await service.client.get("/v1/embeddings")
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert response.json()["error"]["message"].startswith("Not allowed to GET on /v1/embeddings.")


async def test_models_are_listed_and_found_by_id_alias_and_encoded_id(
    service: FakeService,
) -> None:
    listed = (await service.client.get("/v1/models")).json()
    assert [model["id"] for model in listed["data"]] == [EMBED.id, SCORE.id]
    for name in (EMBED.id, "short", EMBED.id.replace("/", "%2F")):
        model = (await service.client.get(f"/v1/models/{name}")).json()
        assert model == listed["data"][0]
    assert model["object"] == "model"
    assert model["max_model_len"] == 32
    missing = await service.client.get("/v1/models/no")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")
    assert missing.json()["error"]["param"] == "model"


async def test_readiness_tells_its_reasons(service: FakeService) -> None:
    assert (await service.client.get("/health/ready")).status_code == 200
    service.health.add("engine", lambda: "dead")
    response = await service.client.get("/health/ready")
    assert response.status_code == 503
    assert response.json() == {"status": "not_ready", "reasons": {"engine": "dead"}}
    assert (await service.client.get("/health/live")).status_code == 200


async def test_defect_is_500_without_a_trace_of_it(service: FakeService) -> None:
    async def broken(*_: object) -> None:
        raise ValueError("the text of the user")

    service.transport.backlog = broken  # type: ignore[method-assign, assignment]
    output = io.StringIO()
    configure_logs(stream=output)
    response = await service.embed(input=word(1))
    assert response.status_code == 500
    assert response.json()["error"]["message"] == INTERNAL_MESSAGE
    assert "the text of the user" not in output.getvalue() + response.text
    assert '"error":"ValueError"' in output.getvalue()


async def test_access_line_tells_all_but_the_text(service: FakeService) -> None:
    output = io.StringIO()
    configure_logs(stream=output)
    await service.client.post(
        "/v1/embeddings",
        json={"model": "short", "input": "confidential w1", "user": "alice"},
        headers={
            "authorization": "Bearer sk-confidential-key",
            "x-stainless-retry-count": "2",
            "x-client-request-id": "bad id\twith\ttabs",
        },
    )
    (line,) = [json.loads(line) for line in output.getvalue().splitlines()]
    assert "confidential" not in output.getvalue()
    assert "alice" not in output.getvalue()
    assert line["event"] == "request"
    assert (line["route"], line["status"], line["model"]) == ("/v1/embeddings", 200, EMBED.id)
    assert (line["inputs"], line["tokens"], line["stainless_retry_count"]) == (1, 4, "2")
    assert "client_request_id" not in line
    assert set(line["stages_ms"]) == {"auth", "tokenize", "queue", "infer", "reply", "encode"}


async def test_requests_are_counted_once_under_bounded_labels(service: FakeService) -> None:
    await service.embed(input=[word(1), word(2)])
    await service.embed(model="made-up-by-a-client", input=word(1))
    await service.client.get("/made/up/by/a/client")
    model = EMBED.id
    labels = {"route": "/v1/embeddings", "model": model, "code": "200", "error_type": ""}
    assert service.value("requests_total", **labels) == 1
    assert service.value("tokens_total", model=model, kind="embed") == 6
    assert service.value("inputs_total", model=model, kind="embed") == 2
    unknown = labels | {"model": "none", "code": "404", "error_type": "invalid_request_error"}
    assert service.value("requests_total", **unknown) == 1
    assert service.value("requests_total", **unknown | {"route": "other"}) == 1
    assert service.value("stage_duration_seconds_count", stage="infer", model=model) == 1
    assert service.value("inflight", model=model) == 0


async def test_work_is_cancelled_when_the_client_leaves(
    service: FakeService, wait_until: WaitUntil
) -> None:
    service.engine.gate.clear()
    body = json.dumps({"model": EMBED.id, "input": word(1)}).encode()
    left = asyncio.Event()
    messages = [{"type": "http.request", "body": body}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    sent: list[Any] = []
    scope = httpx_scope("/v1/embeddings")
    request = asyncio.create_task(service.app(scope, receive, send))
    await wait_until(lambda: service.transport.outstanding == 1)
    left.set()
    await asyncio.wait_for(request, 5)
    assert service.transport.outstanding == 0
    assert sent[0]["status"] == 499


async def test_client_that_leaves_while_sending_is_no_error(service: FakeService) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    sent: list[Any] = []
    await service.app(httpx_scope("/v1/embeddings"), receive, send)
    assert sent[0]["status"] == 499


def httpx_scope(path: str) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
        "server": ("test", 80),
        "client": ("test", 1),
    }


async def test_schema_describes_every_public_route(service: FakeService) -> None:
    schema = (await service.client.get("/openapi.json")).json()
    assert {"/v1/embeddings", "/v1/rerank", "/v1/score", "/v1/models"} <= set(schema["paths"])
    body = schema["paths"]["/v1/embeddings"]["post"]["requestBody"]
    assert "input" in body["content"]["application/json"]["schema"]["properties"]
    assert "422" not in json.dumps(schema)


def test_walk_of_routes_finds_them(service: FakeService) -> None:
    assert sum(isinstance(route, APIRoute) for route in routes_of(service)) >= 10
