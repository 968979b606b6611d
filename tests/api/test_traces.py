"""A trace from the HTTP edge to the worker's batch, over either transport; and what is in none."""

import asyncio
import io
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from fake_service import EMBED, FakeService, running_service, word, word_id
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id
from prometheus_client.openmetrics.exposition import generate_latest
from redis_server import running_redis
from structlog.testing import capture_logs

from observability import tracing as names
from observability.logs import configure_logs
from observability.spans import SdkTracing
from transport.protocols import JobClient, JobConsumer
from transport.redis.client import ClientConfig, RedisJobClient
from transport.redis.connections import RedisConfig
from transport.redis.consumer import RedisJobConsumer

CALLER = "4bf92f3577b34da6a3ce929d0e0e4736"
SAMPLED = {"traceparent": f"00-{CALLER}-00f067aa0ba902b7-01"}
NOT_SAMPLED = {"traceparent": f"00-{CALLER}-00f067aa0ba902b7-00"}


class Traced:
    """A running service and the spans that it made."""

    def __init__(self, service: FakeService, exporter: InMemorySpanExporter) -> None:
        self.service = service
        self._exporter = exporter

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def span(self, name: str) -> ReadableSpan:
        (span,) = self.spans(name)
        return span

    def told(self) -> str:
        return "".join(span.to_json() for span in self._exporter.get_finished_spans())

    async def embed(self, *texts: str, **headers: str) -> None:
        body = {"model": EMBED.id, "input": list(texts)}
        await self.service.client.post("/v1/embeddings", json=body, headers=headers)


async def _redis_sides(stack: AsyncExitStack) -> tuple[JobClient, JobConsumer]:
    config = RedisConfig(stack.enter_context(running_redis()).url, block_s=0.1)
    consumer = RedisJobConsumer(config, "w1")
    client = RedisJobClient(config, ClientConfig(discovery_s=0.01))
    await consumer.start()
    stack.push_async_callback(consumer.close)
    await client.start()
    stack.push_async_callback(client.close)
    return client, consumer


@pytest.fixture(params=["memory", "redis"])
async def traced(request: pytest.FixtureRequest) -> AsyncIterator[Traced]:
    exporter = InMemorySpanExporter()
    tracing = SdkTracing(SimpleSpanProcessor(exporter), ratio=0.0)
    async with AsyncExitStack() as stack:
        sides = await _redis_sides(stack) if request.param == "redis" else None
        running = running_service(EMBED, tracing=tracing, sides=sides)
        service = await stack.enter_async_context(running)
        async with asyncio.timeout(5):
            while EMBED.id not in await service.gateway.catalog.models():
                await asyncio.sleep(0.001)
        yield Traced(service, exporter)


async def test_request_its_jobs_and_their_batch_are_one_story(traced: Traced) -> None:
    with capture_logs() as logs:
        await traced.embed(*[word(i) for i in range(60)], **SAMPLED)  # 180 tokens, 64 a job
    request = traced.span("POST /v1/embeddings")
    assert request.kind is SpanKind.SERVER
    assert request.parent is not None
    assert format_span_id(request.parent.span_id) == "00f067aa0ba902b7"
    jobs = traced.spans("job")
    assert len(jobs) == 3
    for span in (request, *jobs):
        assert format_trace_id(span.context.trace_id) == CALLER
    batches = traced.spans(f"batch {EMBED.id}")
    linked = [link for batch in batches for link in batch.links]
    assert [link.context.span_id for link in linked] == [request.context.span_id] * 3
    for job in jobs:
        assert job.parent is not None
        assert job.parent.span_id == request.context.span_id
        (link,) = job.links
        assert link.context.span_id in {batch.context.span_id for batch in batches}
        # By Redis' clock, which is known to half the time that a question to it took.
        assert request.start_time <= job.start_time + 1e8
        assert job.start_time <= job.end_time
    assert {line.get("trace_id") for line in logs if line["event"] == "request"} == {CALLER}


async def test_attributes_are_those_of_the_access_line_and_of_the_batch(traced: Traced) -> None:
    await traced.embed(word(1), word(2), **SAMPLED)
    request = dict(traced.span("POST /v1/embeddings").attributes or {})
    assert request["http.route"] == "/v1/embeddings"
    assert request["http.response.status_code"] == 200
    assert request[names.TOKENS] == 6
    assert {f"{names.STAGE_ATTRIBUTE}{stage}" for stage in ("tokenize", "infer")} < request.keys()
    batch = dict(traced.span(f"batch {EMBED.id}").attributes or {})
    assert (batch[names.JOBS], batch[names.SEQUENCES], batch[names.TOKENS]) == (1, 2, 6)
    assert batch[names.PADDED_TOKENS] == 1
    job = dict(traced.span("job").attributes or {})
    assert (job[names.LANE], job[names.ATTEMPT]) == ("online", 1)
    known = {value for name, value in vars(names).items() if name.isupper() and type(value) is str}
    known |= set(names.REQUEST_ATTRIBUTES.values())
    for name in request.keys() | batch.keys() | job.keys():
        assert name in known or name.startswith(names.STAGE_ATTRIBUTE)


async def test_no_trace_holds_a_text_or_a_key(traced: Traced) -> None:
    secret = {"authorization": "Bearer fl_SECRET", "x-client-request-id": "SECRET"}
    await traced.embed("w1 SECRET", **SAMPLED, **secret)
    await traced.service.client.post("/v1/SECRET?q=SECRET", headers=SAMPLED | secret)
    assert len(traced.spans("POST /v1/embeddings")) == 1
    assert "SECRET" not in traced.told()


@pytest.mark.parametrize("parent", [SAMPLED, {"traceparent": "SECRET" * 200}])
async def test_headers_of_a_trace_reach_neither_log_nor_trace(
    traced: Traced, parent: dict[str, str]
) -> None:
    output = io.StringIO()
    configure_logs(stream=output)
    for tracestate in ("SECRET key and text", "key=SECRET", "SECRET," * 100):
        await traced.embed(word(1), **parent, tracestate=tracestate)
    assert output.getvalue().count("\n") == 3  # the access lines
    assert "SECRET" not in output.getvalue() + traced.told()


async def test_failed_job_and_failed_request_are_marked(traced: Traced) -> None:
    traced.service.engine.bad_row = lambda ids: word_id(1) in ids
    await traced.embed(word(2), word(1), **SAMPLED)
    job, request = traced.span("job"), traced.span("POST /v1/embeddings")
    assert job.status.status_code is request.status.status_code is StatusCode.ERROR
    assert (job.attributes or {})[names.ERROR_TYPE] == "non_finite"
    assert (request.attributes or {})[names.ERROR_TYPE] == "server_error"


@pytest.mark.parametrize("headers", [{}, NOT_SAMPLED, {"traceparent": "nonsense"}])
async def test_request_that_is_not_sampled_leaves_nothing(
    traced: Traced, headers: dict[str, str]
) -> None:
    with capture_logs() as logs:
        await traced.embed(word(1), **headers)
    assert traced.told() == ""
    (line,) = [line for line in logs if line["event"] == "request"]
    assert "trace_id" not in line


async def test_probe_is_no_request_to_trace(traced: Traced) -> None:
    await traced.service.client.get("/health/live", headers=SAMPLED)
    assert traced.told() == ""


async def test_latencies_have_the_trace_as_their_exemplar(traced: Traced) -> None:
    await traced.embed(word(1), **SAMPLED)
    exemplars = {
        family.name
        for family in traced.service.metrics.registry.collect()
        for sample in family.samples
        if sample.exemplar and sample.exemplar.labels == {"trace_id": CALLER}
    }
    assert exemplars == {"florilege_request_duration_seconds", "florilege_stage_duration_seconds"}
    served = generate_latest(traced.service.metrics.registry).decode()
    assert f'# {{trace_id="{CALLER}"}}' in served


def test_without_traces_no_process_loads_what_makes_spans() -> None:
    """redis-py loads the SDK's metrics where it finds them."""
    program = (
        "import sys, cli.gateway, cli.serve, cli.worker, worker.worker, api.app\n"
        "from cli.settings import load_settings\n"
        "from cli.wiring import build_tracing\n"
        "build_tracing(load_settings({}, {}), 'florilege')\n"
        "spans = ('opentelemetry.sdk.trace', 'opentelemetry.exporter', 'observability.spans')\n"
        "sys.exit(any(name.startswith(spans) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
