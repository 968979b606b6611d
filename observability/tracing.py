"""Every span and attribute of a trace, in one place. Off by default; nothing here needs the SDK.

    POST /v1/embeddings    of a request, at the gateway; a child of the caller's, where it has one
      job                  of each of its jobs, at a worker: from submission to its answer
    batch MODEL            of what ran together, linked with each job of it that is traced

A job carries the `traceparent` of its request, and '' where the request is not recorded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

# Fields of the access line, and what an attribute calls them. What is not here is in no trace.
REQUEST_ATTRIBUTES = {
    "method": "http.request.method",
    "route": "http.route",
    "status": "http.response.status_code",
    "error_type": "error.type",
    "stainless_retry_count": "http.request.resend_count",
    "model": "gen_ai.request.model",
    "tokens": "gen_ai.usage.input_tokens",
    "request_id": "florilege.request_id",
    "kid": "florilege.kid",
    "inputs": "florilege.inputs",
    "truncated": "florilege.truncated",
}
STAGE_ATTRIBUTE = "florilege.stage_ms."  # and the stage
ERROR_TYPE = "error.type"
MODEL = "gen_ai.request.model"
TOKENS = "gen_ai.usage.input_tokens"
JOB_ID = "messaging.message.id"
JOBS = "messaging.batch.message_count"
SEQUENCES = "florilege.sequences"
PADDED_TOKENS = "florilege.padded_tokens"
STEPS = "florilege.steps"
INFER_S = "florilege.infer_s"
WAITED_S = "florilege.waited_s"
LANE = "florilege.lane"
ATTEMPT = "florilege.attempt"


class RequestTrace(Protocol):
    """The span of one request, from its receipt."""

    @property
    def trace_id(self) -> str:
        """Of 32 hex digits; '' where the request is not recorded."""
        ...

    @property
    def traceparent(self) -> str:
        """For what is done elsewhere on its behalf; '' where the request is not recorded."""
        ...

    def end(self, fields: Mapping[str, Any]) -> None:
        """`fields`: of the access line."""
        ...


@dataclass(frozen=True)
class TracedJob:
    traceparent: str
    job_id: str
    tokens: int
    sequences: int
    lane: str
    attempt: int
    waited_s: float  # from its submission to its receipt
    error: str = ""  # the first code among its sequences'


@dataclass(frozen=True)
class TracedBatch:
    model: str
    elapsed_s: float  # since it began
    infer_s: float
    tokens: int
    padded_tokens: int
    sequences: int
    steps: int
    jobs: Sequence[TracedJob]  # all of it, those that are not recorded too


class Tracing(Protocol):
    """What a process tells of its work."""

    def begin_request(self, traceparent: str | None) -> RequestTrace:
        """The header of the caller, whose decision to record counts."""
        ...

    def record_batch(self, batch: TracedBatch) -> None:
        """As it is answered. Without a job that is recorded, nothing is."""
        ...

    def close(self) -> None:
        """Send what is left. Blocks for two seconds at most."""
        ...


class _Untraced:
    """Both protocols; keeps nothing."""

    trace_id = traceparent = ""

    def begin_request(self, traceparent: str | None) -> RequestTrace:
        return self

    def record_batch(self, batch: TracedBatch) -> None:
        pass

    def end(self, fields: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


UNTRACED = _Untraced()
