"""What is known of one request while it is answered."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from starlette.requests import Request

from auth.limits.quota import UNLIMITED, Allowance
from auth.principal import ANONYMOUS, Principal
from observability.metrics import NO_MODEL
from observability.tracing import UNTRACED, RequestTrace
from transport.messages import Lane


@dataclass(eq=False)
class RequestContext:
    """Filled along the way; the middleware writes headers, metrics and the access line from it."""

    request_id: str
    asked: Mapping[str, str] = field(default_factory=dict)  # its headers, see `headers_of`
    started_s: float = field(default_factory=time.perf_counter)
    principal: Principal = ANONYMOUS
    trace: RequestTrace = UNTRACED
    allowance: Allowance = UNLIMITED  # of this request
    model: str = NO_MODEL  # the resolved id, never what the client sent
    lane: Lane | None = None  # None: not asked for, the size of the request decides
    input_type: str | None = None  # of the header
    deadline_s: float = 0.0  # on the clock of time.perf_counter
    stages: dict[str, float] = field(default_factory=dict)  # seconds by stage
    characters: int = 0  # to be tokenized, prompts repeated for each input; token ids count too
    tokens: int = 0
    inputs: int = 0
    truncated: int = 0
    submitted: bool = False  # whether any of its work was sent to a worker
    error_type: str = ""
    headers: dict[str, str] = field(default_factory=dict)  # of the answer

    def elapsed_s(self) -> float:
        return time.perf_counter() - self.started_s

    def left_s(self) -> float:
        """Time to the deadline."""
        return self.deadline_s - time.perf_counter()


def headers_of(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """A request's headers by name, in lower case; of a repeated one the first."""
    headers: dict[str, str] = {}
    for name, value in raw:
        headers.setdefault(name.decode("latin-1"), value.decode("latin-1"))
    return headers


def context_of(request: Request) -> RequestContext:
    context: RequestContext = request.scope["state"]["context"]
    return context
