"""Sizes of batches, by the metrics that the product itself writes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web
from prometheus_client import generate_latest
from stub_embedder import StubEmbedder

import bench.server_metrics
from bench.client import RequestFailed
from bench.measure import Effort
from bench.options import parse
from bench.progress import Bar
from bench.results import Batches
from bench.run import run
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


class BusyWorker(Worker):
    """Runs a batch of so many tokens before every scrape."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self._tokens = tokens

    @property
    def page(self) -> str:
        self.run(self._tokens, 2)
        return super().page


@asynccontextmanager
async def serving(worker: Worker) -> AsyncIterator[str]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=worker.page)

    app = web.Application()
    app.router.add_get("/metrics", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    await runner.cleanup()


async def batches_of(stub: StubEmbedder, *arguments: str) -> list[Batches]:
    options = parse(["latency", "--sizes", "16", "--no-check", "--url", stub.url, *arguments])
    return (await run(replace(options, effort=Effort(0.0, 0.0, 3)), Bar())).batches


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


async def test_several_workers_are_one() -> None:
    worker = Worker()
    worker.run(16, 1)
    async with serving(worker) as url:
        assert (await scrape([url, url])).tokens == 32


async def test_run_tells_the_batches_of_each_suite(stub: StubEmbedder) -> None:
    async with serving(BusyWorker(20)) as url:
        (batches,) = await batches_of(stub, "--metrics-url", url)
    assert (batches.suite, batches.count, batches.tokens) == ("latency", 1, 20)


@pytest.mark.parametrize(("tokens", "kept"), [(10, 0), (100_000, 1)])
async def test_metrics_found_by_default_count_if_they_saw_what_was_sent(
    stub: StubEmbedder, monkeypatch: pytest.MonkeyPatch, tokens: int, kept: int
) -> None:
    """Three texts of 16 tokens: with 10 it is another server that answers there."""
    async with serving(BusyWorker(tokens)) as url:
        monkeypatch.setattr(bench.server_metrics, "default_metrics_url", lambda _: url)
        assert len(await batches_of(stub)) == kept


async def test_metrics_that_do_not_answer_are_told_only_where_they_were_named() -> None:
    with pytest.raises(RequestFailed, match=r"metrics at http://127\.0\.0\.1:9/"):
        await scrape_if_told(["http://127.0.0.1:9/metrics"], "http://127.0.0.1:8000")
    assert await scrape_if_told([], "http://127.0.0.254:8000") is None


def test_metrics_are_looked_for_at_the_admin_port_of_the_servers_host() -> None:
    assert default_metrics_url("http://host:8000/v1") == "http://host:8001/metrics"
    assert default_metrics_url("http://[::1]:8000") == "http://[::1]:8001/metrics"
