"""What is told of every answered request: metrics, its one access line, the end of its span."""

from collections.abc import Iterable, MutableMapping
from typing import Any

from api.context import RequestContext
from observability.line_sampling import LineSampler
from observability.logs import Logger, get_logger
from observability.metrics import SMALL_TOKENS, Metrics
from observability.request_id import is_loggable

# Refused because of load, or of a limit: in a flood they come by the thousand, and are all alike.
_REFUSED = (429, 503)
# Counted, but not timed: probes are fast and many, and administration is nobody's latency.
_UNTIMED = ("/health/", "/v1/admin/")
_CLIENT_FIELDS = {
    b"x-client-request-id": "client_request_id",
    b"x-stainless-retry-count": "stainless_retry_count",
}


class AccessLog:
    """Of one app."""

    def __init__(self, metrics: Metrics, lines: LineSampler | None = None) -> None:
        """`lines`: which of refused requests are written."""
        self._metrics = metrics
        self._lines = lines or LineSampler()
        self._logger: Logger | None = None

    def record(self, scope: MutableMapping[str, Any], context: RequestContext, status: int) -> None:
        """Once, when the answer has ended."""
        elapsed_s = context.elapsed_s()
        route = getattr(scope.get("route"), "path", "other")  # a template, never a client's path
        told = _told_by(scope["headers"])
        self._count(route, context, status, elapsed_s)
        self._count_retry(told.get("stainless_retry_count", "0"), context.model)
        is_written = status not in _REFUSED or self._lines.admits()
        if not is_written:
            self._metrics.unlogged_requests.inc()
        if not is_written and not context.trace.trace_id:
            return
        fields = _fields(scope["method"], route, context, status)
        fields["duration_ms"] = round(elapsed_s * 1000, 3)
        fields |= told
        context.trace.end(fields)
        if is_written:
            if unlogged := self._lines.take_unwritten():
                fields["unlogged"] = unlogged
            if self._logger is None:
                self._logger = get_logger().bind()  # which is most of what a line costs
            self._logger.info("request", **fields)

    def _count(self, route: str, context: RequestContext, status: int, elapsed_s: float) -> None:
        metrics, model = self._metrics, context.model
        trace_id = context.trace.trace_id
        exemplar = {"trace_id": trace_id} if trace_id else None
        size = "none"
        if status == 200 and context.tokens:
            size = "small" if context.tokens <= SMALL_TOKENS else "large"
        metrics.requests.labels(route, model, str(status), context.error_type).inc()
        if not route.startswith(_UNTIMED):
            metrics.request_duration.labels(route, model, size).observe(elapsed_s, exemplar)
        for stage, seconds in context.stages.items():
            metrics.stage_duration.labels(stage, model).observe(seconds, exemplar)

    def _count_retry(self, header: str, model: str) -> None:
        if header != "0" and header.isdecimal():
            retry = header if header in ("1", "2") else "more"
            self._metrics.client_retries.labels(model, retry).inc()


def _told_by(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """What a client says of its request, where a log may hold it."""
    told = {}
    for header, value in headers:
        if (field := _CLIENT_FIELDS.get(header)) is not None:
            text = value.decode("latin-1")
            if is_loggable(text):
                told[field] = text
    return told


def _fields(method: str, route: str, context: RequestContext, status: int) -> dict[str, Any]:
    """Ids and figures: never a text, never a key."""
    fields: dict[str, Any] = {
        "request_id": context.request_id,
        "method": method,
        "route": route,
        "status": status,
        "model": context.model,
        "kid": context.principal.kid,
        "inputs": context.inputs,
        "tokens": context.tokens,
        "truncated": context.truncated,
        "error_type": context.error_type or None,
        "stages_ms": {stage: round(s * 1000, 3) for stage, s in context.stages.items()},
    }
    if context.trace.trace_id:
        fields["trace_id"] = context.trace.trace_id
    return fields
