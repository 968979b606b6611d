"""Around every request: its id, its key, its headers, its span, and what is told of it."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp

from api.access import OPEN_PATHS, authenticate
from api.access_log import AccessLog
from api.callers import Callers
from api.context import RequestContext, headers_of
from api.errors import INTERNAL_MESSAGE, ApiError
from api.rate_headers import is_rate_header, rate_headers
from auth.limits.quota import UNLIMITED, Allowance
from auth.principal import Principal
from observability.logs import get_logger, place_of
from observability.metrics import Metrics
from observability.request_id import new_id
from observability.tracing import UNTRACED, Tracing

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
RawHeaders = list[tuple[bytes, bytes]]  # names in lower case


class RequestMiddleware:
    """Outermost, in pure ASGI: a wrapping response class would hide disconnects."""

    def __init__(
        self, app: ASGIApp, callers: Callers, metrics: Metrics, tracing: Tracing = UNTRACED
    ) -> None:
        self._app = app
        self._callers = callers
        self._log = AccessLog(metrics)
        self._tracing = tracing

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = RequestContext(new_id("req_"), headers_of(scope["headers"]))
        scope.setdefault("state", {})["context"] = context
        scope["path"] = scope["path"].rstrip("/") or "/"
        if self._tracing is not UNTRACED and scope["path"] not in OPEN_PATHS:
            context.trace = self._tracing.begin_request(context.asked.get("traceparent"))
        answer = _Answer(send, context, self._callers.look)
        try:
            await self._handle(scope, receive, answer)
        finally:
            self._log.record(scope, context, answer.status)

    async def _handle(self, scope: Message, receive: Receive, answer: "_Answer") -> None:
        context = answer.context
        authenticator = self._callers.authenticator
        try:
            context.principal = authenticate(authenticator, scope["path"], context.asked)
        except ApiError as error:
            context.error_type = error.row.type
            response = error_response(error)
            await response(scope, receive, answer.send)
            return
        self._callers.seen(context.principal)
        context.stages["auth"] = context.elapsed_s()
        try:
            await self._app(scope, receive, answer.send)
        except Exception as error:
            context.error_type = "server_error"
            get_logger().error("unhandled", **place_of(error))
            if not answer.started:
                response = error_response(ApiError("internal", INTERNAL_MESSAGE))
                await response(scope, receive, answer.send)


class _Answer:
    """Writes the context's headers onto the answer as it starts, and remembers its status."""

    def __init__(
        self,
        send: Send,
        context: RequestContext,
        look: Callable[[Principal], Awaitable[Allowance]],
    ) -> None:
        self._send = send
        self._look = look
        self.context = context
        self.status = 499  # the client left before an answer began
        self.started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            message["headers"] = _with(message["headers"], self._headers() | await self._rates())
        await self._send(message)

    def _headers(self) -> dict[str, str]:
        headers = {
            "x-request-id": self.context.request_id,
            "openai-version": "2020-10-01",
            "openai-processing-ms": str(round(self.context.elapsed_s() * 1000)),
        }
        if self.context.stages:
            headers["server-timing"] = ", ".join(
                f"{stage};dur={seconds * 1000:.3f}"
                for stage, seconds in self.context.stages.items()
            )
        return headers | self.context.headers

    async def _rates(self) -> dict[str, str]:
        """The request's own, else by a look; where it was refused its headers have them."""
        context, allowance = self.context, self.context.allowance
        if allowance is UNLIMITED and not any(map(is_rate_header, context.headers)):
            allowance = await self._look(context.principal)
        return rate_headers(allowance.requests, allowance.tokens)


def _with(headers: RawHeaders, own: dict[str, str]) -> RawHeaders:
    """`own` in the place of headers of the same name."""
    encoded = {name.lower().encode(): value.encode("latin-1") for name, value in own.items()}
    return [header for header in headers if header[0] not in encoded] + list(encoded.items())


def error_response(error: ApiError) -> Response:
    return Response(error.body(), error.row.status, error.headers(), "application/json")
