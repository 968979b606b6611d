"""Traces on their way to a collector."""

import socket
import sys
import time
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import format_trace_id
from trace_collector import Collector, running_collector

from cli.settings import SettingsError, load_settings
from cli.wiring import build_tracing
from observability.spans import SdkTracing, trace_to
from observability.tracing import UNTRACED, TracedBatch, TracedJob, Tracing

FIELDS = {"method": "GET", "route": "/v1/models", "status": 200, "stages_ms": {}}
VALID = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running_collector() as collector:
        yield collector


def request(tracing: Tracing) -> None:
    tracing.begin_request(None).end(FIELDS)


@pytest.mark.parametrize(("path", "asked"), [("", "/v1/traces"), ("/", "/v1/traces"), ("/x", "/x")])
def test_what_is_left_reaches_the_collector_as_the_process_ends(
    collector: Collector, path: str, asked: str
) -> None:
    tracing = trace_to(collector.url + path, 1.0, "florilege-gateway", "1.2.3")
    request(tracing)
    tracing.close()
    ((found, sent),) = collector.requests
    assert found == asked
    (resource,) = sent.resource_spans
    attributes = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert attributes["service.name"] == "florilege-gateway"
    assert attributes["service.version"] == "1.2.3"
    assert [span.name for span in resource.scope_spans[0].spans] == ["GET /v1/models"]


@pytest.mark.parametrize("listens", [False, True])
def test_collector_that_is_gone_or_silent_holds_up_no_exit(listens: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1] if listens else 9
        tracing = trace_to(f"http://127.0.0.1:{port}", 1.0, "florilege", "0")
        request(tracing)
        began_s = time.monotonic()
        tracing.close()
    assert time.monotonic() - began_s < 2.5


def test_full_queue_holds_up_an_exit_no_longer_than_one_span() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        tracing = trace_to(f"http://127.0.0.1:{server.getsockname()[1]}", 1.0, "florilege", "0")
        for _ in range(1_500):  # the SDK sends 512 at once, and would wait 3 s for each
            request(tracing)
        began_s = time.monotonic()
        tracing.close()
    assert time.monotonic() - began_s < 2.5


@pytest.mark.parametrize(
    ("header", "is_known"),
    [
        *((VALID, True), (f" {VALID}\t", True), (f"cc{VALID[2:]}", True)),
        *((f"cc{VALID[2:]}-more", True), (f"cc{VALID[2:]}more", False)),
        *((f"{VALID}-more", False), (f"ff{VALID[2:]}", False), (VALID.upper(), False)),
        *((f"00-{'0' * 32}-00f067aa0ba902b7-01", False), (f"{VALID[:36]}{'0' * 16}-01", False)),
        *((f"{VALID}\n", False), ("", False), ("SECRET" * 200, False), (VALID[:-1], False)),
    ],
)
def test_parent_is_one_that_can_be_read_and_no_other(header: str, is_known: bool) -> None:
    exporter = InMemorySpanExporter()
    tracing = SdkTracing(SimpleSpanProcessor(exporter), ratio=1.0)
    tracing.begin_request(header).end(FIELDS)
    (span,) = exporter.get_finished_spans()
    assert (span.parent is not None) == is_known
    if span.parent is not None:
        assert format_trace_id(span.parent.trace_id) == VALID[3:35]


@pytest.mark.parametrize(("ratio", "spans"), [(0.0, 0), (1.0, 20)])
def test_share_of_the_requests_is_traced(ratio: float, spans: int) -> None:
    exporter = InMemorySpanExporter()
    tracing = SdkTracing(SimpleSpanProcessor(exporter), ratio)
    for _ in range(20):
        request(tracing)
    assert len(exporter.get_finished_spans()) == spans


@pytest.mark.parametrize(
    ("traceparents", "links"),
    [(("", "nonsense", VALID[:-1] + "0"), 0), (("", VALID, VALID), 2)],
)
def test_batch_is_traced_where_a_job_of_it_is_whatever_the_share(
    traceparents: tuple[str, ...], links: int
) -> None:
    exporter = InMemorySpanExporter()
    tracing = SdkTracing(SimpleSpanProcessor(exporter), ratio=0.0)
    jobs = [TracedJob(t, "job_1", 3, 1, "online", 1, 0.5) for t in traceparents]
    tracing.record_batch(TracedBatch("m", 0.25, 0.1, 9, 0, 3, 1, jobs))
    batches = [span for span in exporter.get_finished_spans() if span.name == "batch m"]
    assert [len(batch.links) for batch in batches] == [links] * bool(links)
    for batch in batches:
        assert batch.start_time is not None
        assert batch.end_time is not None
        assert batch.end_time - batch.start_time == pytest.approx(0.25e9, rel=0.01)


def test_method_that_a_client_made_up_names_no_span() -> None:
    exporter = InMemorySpanExporter()
    tracing = SdkTracing(SimpleSpanProcessor(exporter), ratio=1.0)
    tracing.begin_request(None).end(FIELDS | {"method": "MADEUP"})
    assert [span.name for span in exporter.get_finished_spans()] == ["HTTP /v1/models"]


def test_endpoint_without_the_library_is_a_setting_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "observability.spans", None)
    assert build_tracing(load_settings({}, {}), "florilege") is UNTRACED
    settings = load_settings({"trace_endpoint": "http://localhost:4318"}, {})
    with pytest.raises(SettingsError, match=r"--trace-endpoint needs OpenTelemetry: pip install"):
        build_tracing(settings, "florilege")
