"""A model that is known and has no worker, and one that is not known."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from fake_client import FakeClient
from fake_service import EMBED, SCORE, make_service

from api.app import create_app
from api.gateway import Gateway, GatewayConfig
from auth.authenticator import Authenticator
from observability.metrics import Metrics
from transport.messages import Job, JobError, JobResult


class Deserted(FakeClient):
    """Its only worker dies with every job."""

    async def submit(self, job: Job) -> JobResult:
        raise JobError("not_ready", retry_after_s=5.0)


@asynccontextmanager
async def gateway_without_workers(
    make: type[FakeClient] = FakeClient, live: int = 0
) -> AsyncIterator[httpx.AsyncClient]:
    known = make(EMBED, SCORE)
    known.set_live(EMBED.id, live)
    known.set_live(SCORE.id, live)
    metrics = Metrics()
    gateway = Gateway(known, GatewayConfig(), metrics)
    app = create_app(make_service(gateway, metrics), Authenticator(), "0")
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://test"
    ) as client:
        yield client
    gateway.close()


@pytest.mark.parametrize(("make", "live"), [(FakeClient, 0), (Deserted, 1)])
async def test_model_without_a_live_worker_is_503_and_says_when_to_come_again(
    make: type[FakeClient], live: int
) -> None:
    async with gateway_without_workers(make, live) as client:
        answers = [
            await client.post("/v1/embeddings", json={"model": EMBED.id, "input": "w1"}),
            await client.post(
                "/v1/rerank", json={"model": SCORE.id, "query": "w1", "documents": ["w2"]}
            ),
        ]
    for answer in answers:
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "model_not_ready"
        assert answer.headers["retry-after"] in ("5", "6", "7")
        assert 5_000 <= int(answer.headers["retry-after-ms"]) <= 6_250  # spread
        assert "x-should-retry" not in answer.headers


async def test_unknown_model_is_404_whatever_the_workers_do() -> None:
    async with gateway_without_workers() as client:
        answer = await client.post("/v1/embeddings", json={"model": "none", "input": "w1"})
    assert answer.status_code == 404


async def test_model_without_a_live_worker_is_still_listed() -> None:
    async with gateway_without_workers() as client:
        listed = (await client.get("/v1/models")).json()["data"]
    assert [model["id"] for model in listed] == [EMBED.id, SCORE.id]
