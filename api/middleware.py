"""Around every request: its id, its key, its headers, its metrics and its one access line."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp

from api.access import authenticate
from api.context import RequestContext
from api.errors import INTERNAL_MESSAGE, ApiError
from api.rate_headers import is_rate_header, rate_headers
from auth.authenticator import Authenticator
from auth.limits.quota import UNLIMITED, Allowance
from auth.principal import Principal
from observability.logs import get_logger, place_of
from observability.metrics import Metrics
from observability.request_id import is_loggable, new_id

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]


class RequestMiddleware:
    """Outermost, in pure ASGI: a wrapping response class would hide disconnects."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        metrics: Metrics,
        seen: Callable[[Principal], None],
        look: Callable[[Principal], Awaitable[Allowance]],
    ) -> None:
        """`seen` hears of each caller whose key was accepted, whatever comes of the request.

        `look` tells what is left to a caller whose request asked no limit, as `Quotas.look` does.
        """
        self._app = app
        self._authenticator = authenticator
        self._seen = seen
        self._look = look
        self._metrics = metrics

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = RequestContext(new_id("req_"))
        scope.setdefault("state", {})["context"] = context
        scope["path"] = scope["path"].rstrip("/") or "/"
        answer = _Answer(send, context, self._look)
        try:
            await self._handle(scope, receive, answer)
        finally:
            self._record(scope, context, answer.status)

    async def _handle(self, scope: Message, receive: Receive, answer: "_Answer") -> None:
        headers = Headers(scope=scope)
        context = answer.context
        try:
            context.principal = authenticate(self._authenticator, scope["path"], headers)
        except ApiError as error:
            context.error_type = error.row.type
            response = error_response(error)
            await response(scope, receive, answer.send)
            return
        self._seen(context.principal)
        context.stages["auth"] = context.elapsed_s()
        try:
            await self._app(scope, receive, answer.send)
        except Exception as error:
            context.error_type = "server_error"
            get_logger().error("unhandled", **place_of(error))
            if not answer.started:
                response = error_response(ApiError("internal", INTERNAL_MESSAGE))
                await response(scope, receive, answer.send)

    def _record(self, scope: Message, context: RequestContext, status: int) -> None:
        elapsed_s = context.elapsed_s()
        metrics = self._metrics
        route = getattr(scope.get("route"), "path", "other")  # a template, never a client's path
        labels = (route, context.model)
        metrics.requests.labels(*labels, str(status), context.error_type).inc()
        metrics.request_duration.labels(*labels).observe(elapsed_s)
        for stage, seconds in context.stages.items():
            metrics.stage_duration.labels(stage, context.model).observe(seconds)
        fields: dict[str, Any] = {
            "request_id": context.request_id,
            "method": scope["method"],
            "route": route,
            "status": status,
            "model": context.model,
            "kid": context.principal.kid,
            "inputs": context.inputs,
            "tokens": context.tokens,
            "truncated": context.truncated,
            "error_type": context.error_type or None,
            "duration_ms": round(elapsed_s * 1000, 3),
            "stages_ms": {k: round(v * 1000, 3) for k, v in context.stages.items()},
        }
        headers = Headers(scope=scope)
        for name in ("x-client-request-id", "x-stainless-retry-count"):
            value = headers.get(name, "")
            if is_loggable(value):
                fields[name.removeprefix("x-").replace("-", "_")] = value
        get_logger().info("request", **fields)


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
            headers = MutableHeaders(raw=message["headers"])
            headers["x-request-id"] = self.context.request_id
            headers["openai-version"] = "2020-10-01"
            headers["openai-processing-ms"] = str(round(self.context.elapsed_s() * 1000))
            if self.context.stages:
                headers["server-timing"] = ", ".join(
                    f"{stage};dur={seconds * 1000:.3f}"
                    for stage, seconds in self.context.stages.items()
                )
            for name, value in (self.context.headers | await self._rates()).items():
                headers[name] = value
        await self._send(message)

    async def _rates(self) -> dict[str, str]:
        """The request's own, else by a look; where it was refused its headers have them."""
        context, allowance = self.context, self.context.allowance
        if allowance is UNLIMITED and not any(map(is_rate_header, context.headers)):
            allowance = await self._look(context.principal)
        return rate_headers(allowance.requests, allowance.tokens)


def error_response(error: ApiError) -> Response:
    return Response(error.body(), error.row.status, error.headers(), "application/json")
