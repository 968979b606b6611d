"""Sizes of batches, by the metrics that the product itself writes."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from prometheus_client import generate_latest

from bench.client import RequestFailed
from bench.server_metrics import between, default_metrics_url, read, scrape, scrape_if_told
from observability.metrics import Metrics


class Worker:
    def __init__(self) -> None:
        self._metrics = Metrics()

    def run(self, tokens: int, sequences: int, model: str = "m") -> None:
        self._metrics.batch_tokens.labels(model).observe(tokens)
        self._metrics.batch_size.labels(model).observe(sequences)

    @property
    def page(self) -> str:
        return generate_latest(self._metrics.registry).decode()


@pytest.fixture
async def served() -> AsyncIterator[tuple[Worker, str]]:
    worker = Worker()

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=worker.page)

    app = web.Application()
    app.router.add_get("/metrics", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield worker, f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    await runner.cleanup()


def test_batches_between_two_scrapes_are_those_that_ran_meanwhile() -> None:
    worker = Worker()
    worker.run(16, 1)
    before = read(worker.page)
    for tokens, sequences in ((16, 1), (17, 2), (2000, 31), (2048, 32)):
        worker.run(tokens, sequences)
    worker.run(3, 1, "another model")
    batches = between("load", before, read(worker.page))
    assert batches.count == 5
    assert batches.tokens == 16 + 17 + 2000 + 2048 + 3
    assert batches.by_tokens == {4: 1, 16: 1, 32: 1, 2048: 2}
    assert batches.by_sequences == {1: 2, 2: 1, 32: 2}


async def test_several_workers_are_one(served: tuple[Worker, str]) -> None:
    worker, url = served
    worker.run(16, 1)
    assert (await scrape([url, url])).tokens == 32


async def test_metrics_that_do_not_answer_are_told_only_where_they_were_named() -> None:
    with pytest.raises(RequestFailed, match=r"metrics at http://127\.0\.0\.1:9/"):
        await scrape_if_told(["http://127.0.0.1:9/metrics"], "http://127.0.0.1:8000")
    assert await scrape_if_told([], "http://127.0.0.254:8000") is None


def test_metrics_are_looked_for_at_the_admin_port_of_the_servers_host() -> None:
    assert default_metrics_url("http://host:8000/v1") == "http://host:8001/metrics"
