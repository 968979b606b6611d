"""The admin port as a bare ASGI app: health and metrics, which need no key.

Gateway and worker serve the same; a gateway's has an API behind it, which asks for keys itself.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import orjson
from prometheus_client.exposition import choose_encoder

from observability.health import Health
from observability.metrics import Metrics

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


App = Callable[[Scope, Receive, Send], Awaitable[None]]


class AdminApp:
    """GET /health/live, /health/ready and /metrics; the rest is the API's, or 404."""

    def __init__(self, health: Health, metrics: Metrics, api: App | None = None) -> None:
        self._health = health
        self._metrics = metrics
        self._api = api or _not_found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        answers = {
            "/health/live": self._live,
            "/health/ready": self._ready,
            "/metrics": self._render,
        }
        answer = answers.get(scope["path"].rstrip("/"))
        if answer is None:
            await self._api(scope, receive, send)
        elif scope["method"] not in ("GET", "HEAD"):
            await _respond(send, 405, b'{"error":"method not allowed"}')
        else:
            status, body, content_type = answer(scope)
            await _respond(send, status, body, content_type)

    def _live(self, _: Scope) -> tuple[int, bytes, bytes]:
        return live_answer()

    def _ready(self, _: Scope) -> tuple[int, bytes, bytes]:
        return ready_answer(self._health)

    def _render(self, scope: Scope) -> tuple[int, bytes, bytes]:
        accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
        encoder, content_type = choose_encoder(accept)
        return 200, encoder(self._metrics.registry), content_type.encode()


def live_answer() -> tuple[int, bytes, bytes]:
    """That the loop answers is the whole proof."""
    return 200, b'{"status":"ok"}', b"application/json"


def ready_answer(health: Health) -> tuple[int, bytes, bytes]:
    reasons = health.not_ready()
    body = orjson.dumps({"status": "not_ready" if reasons else "ready", "reasons": reasons})
    return (503 if reasons else 200), body, b"application/json"


async def _not_found(_scope: Scope, _receive: Receive, send: Send) -> None:
    await _respond(send, 404, b'{"error":"not found"}')


async def _respond(
    send: Send, status: int, body: bytes, content_type: bytes = b"application/json"
) -> None:
    headers = [(b"content-type", content_type), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
