"""Traces by OpenTelemetry's SDK. Imported where traces are asked for, and nowhere else."""

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
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    format_span_id,
    format_trace_id,
    get_current_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from observability import tracing as names
from observability.tracing import UNTRACED, RequestTrace, TracedBatch, TracedJob, Tracing

_EXPORT_TIMEOUT_S = 3.0  # a collector that is gone must not hold up an exit
_PROPAGATOR = TraceContextTextMapPropagator()
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
        self._provider = TracerProvider(sampler=_OwnSampler(ratio), resource=resource)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("florilege")

    def begin_request(self, traceparent: str | None, tracestate: str | None) -> RequestTrace:
        parent = _NO_PARENT if traceparent is None else _remote(traceparent, tracestate)
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
        self._provider.shutdown()


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


def _remote(traceparent: str, tracestate: str | None = None) -> Context:
    """What cannot be read is no parent."""
    carrier = {"traceparent": traceparent}
    if tracestate:
        carrier["tracestate"] = tracestate
    return _PROPAGATOR.extract(carrier, _NO_PARENT)


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
