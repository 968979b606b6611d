"""Traces by OpenTelemetry's SDK. Imported where traces are asked for, and nowhere else."""

import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import (
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    format_span_id,
    format_trace_id,
    get_current_span,
    set_span_in_context,
)

from observability import tracing as names
from observability.tracing import UNTRACED, RequestTrace, TracedBatch, TracedJob, Tracing

_EXPORT_TIMEOUT_S = 3.0
_CLOSE_S = 2.0  # a collector that is gone must not hold up an exit
# As W3C's Trace Context has it: version, trace, span, flags; versions to come may tell more.
_VERSION = re.compile(r"(?!ff)[0-9a-f]{2}")
_REST = re.compile(r"([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?\Z", re.ASCII)
_NO_PARENT = Context()
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def trace_to(endpoint: str, ratio: float, service: str, version: str) -> Tracing:
    """Spans to a collector over OTLP/HTTP.

    `endpoint`: http://HOST:4318, or a URL whose path is where it takes traces. What else an
    exporter needs, such as headers or certificates, it reads from OTEL_EXPORTER_OTLP_*.
    """
    path_at = endpoint.find("/", endpoint.find("://") + 3)
    if path_at < 0 or endpoint[path_at:] == "/":
        endpoint = endpoint.rstrip("/") + "/v1/traces"
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=_EXPORT_TIMEOUT_S)
    resource = Resource.create({"service.name": service, "service.version": version})
    return SdkTracing(BatchSpanProcessor(exporter), ratio, resource)


class SdkTracing:
    """Makes spans; the processor sends them on."""

    def __init__(
        self, processor: SpanProcessor, ratio: float, resource: Resource | None = None
    ) -> None:
        self._provider = TracerProvider(_OwnSampler(ratio), resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("florilege")

    def begin_request(self, traceparent: str | None) -> RequestTrace:
        parent = _NO_PARENT if traceparent is None else _remote(traceparent)
        span = self._tracer.start_span("request", parent, kind=SpanKind.SERVER)
        return _RecordedRequest(span) if span.is_recording() else UNTRACED

    def record_batch(self, batch: TracedBatch) -> None:
        jobs = [(job, _remote(job.traceparent)) for job in batch.jobs if job.traceparent]
        origins = [
            (job, origin) for job, origin in jobs if _span_context(origin).trace_flags.sampled
        ]
        if not origins:
            return
        now_ns = time.time_ns()
        began_ns = now_ns - int(batch.elapsed_s * 1e9)
        span = self._tracer.start_span(
            f"batch {batch.model}",
            _NO_PARENT,
            kind=SpanKind.CONSUMER,
            attributes=_of_batch(batch),
            links=[Link(_span_context(origin), _of_job(job)) for job, origin in origins],
            start_time=began_ns,
        )
        for job, origin in origins:
            self._record_job(job, origin, span, began_ns)
        span.end(now_ns)

    def _record_job(self, job: TracedJob, origin: Context, batch: Span, began_ns: int) -> None:
        span = self._tracer.start_span(
            "job",
            origin,
            kind=SpanKind.CONSUMER,
            attributes=_of_job(job),
            links=[Link(batch.get_span_context())],
            start_time=began_ns - int(job.waited_s * 1e9),
        )
        if job.error:
            span.set_attribute(names.ERROR_TYPE, job.error)
            span.set_status(StatusCode.ERROR)
        span.end()

    def close(self) -> None:
        """What is not sent by then is lost: the SDK itself would wait for each batch of it."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_S)


class _RecordedRequest:
    def __init__(self, span: Span) -> None:
        self._span = span
        context = span.get_span_context()
        self.trace_id = format_trace_id(context.trace_id)
        self.traceparent = f"00-{self.trace_id}-{format_span_id(context.span_id)}-01"

    def end(self, fields: Mapping[str, Any]) -> None:
        span = self._span
        method = fields["method"] if fields["method"] in _METHODS else "HTTP"
        span.update_name(f"{method} {fields['route']}")
        for field, name in names.REQUEST_ATTRIBUTES.items():
            value = fields.get(field)
            if value is not None:
                span.set_attribute(name, value)
        for stage, milliseconds in fields["stages_ms"].items():
            span.set_attribute(names.STAGE_ATTRIBUTE + stage, milliseconds)
        if fields["status"] >= 500:  # as the conventions of HTTP servers say
            span.set_status(StatusCode.ERROR)
        span.end()


class _OwnSampler(Sampler):
    """As the parent has it, else a share of the requests; a batch where a job of it is recorded."""

    def __init__(self, ratio: float) -> None:
        self._requests = ParentBased(TraceIdRatioBased(ratio))

    def should_sample(  # noqa: PLR0913  the SDK's
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Any = None,
        links: Sequence[Link] | None = None,
        trace_state: Any = None,
    ) -> SamplingResult:
        if links:
            return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes)
        return self._requests.should_sample(
            parent_context, trace_id, name, kind, attributes, links, trace_state
        )

    def get_description(self) -> str:
        return "florilege"


def _remote(traceparent: str) -> Context:
    """What cannot be read is no parent.

    Read here, as the SDK's own reader quotes to the log what it cannot read; and `tracestate` is
    not read at all: it would be a client's text in a trace.
    """
    version, _, rest = traceparent.strip(" \t").partition("-")
    found = _REST.match(rest)
    if found is None or not _VERSION.fullmatch(version) or (version == "00" and found[4]):
        return _NO_PARENT
    trace_id, span_id, flags = (int(found[part], 16) for part in (1, 2, 3))
    if not (trace_id and span_id):
        return _NO_PARENT
    remote = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return set_span_in_context(NonRecordingSpan(remote), _NO_PARENT)


def _span_context(context: Context) -> SpanContext:
    return get_current_span(context).get_span_context()


def _of_batch(batch: TracedBatch) -> dict[str, Any]:
    return {
        names.MODEL: batch.model,
        names.JOBS: len(batch.jobs),
        names.TOKENS: batch.tokens,
        names.PADDED_TOKENS: batch.padded_tokens,
        names.SEQUENCES: batch.sequences,
        names.STEPS: batch.steps,
        names.INFER_S: batch.infer_s,
    }


def _of_job(job: TracedJob) -> dict[str, Any]:
    return {
        names.JOB_ID: job.job_id,
        names.TOKENS: job.tokens,
        names.SEQUENCES: job.sequences,
        names.LANE: job.lane,
        names.ATTEMPT: job.attempt,
        names.WAITED_S: job.waited_s,
    }
