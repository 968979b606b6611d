"""What the routes of the admin port share."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from api.context import context_of
from api.request_body import BodyLimits, JsonObject, read_object
from auth.errors import AuthError
from auth.pepper import Peppers
from auth.principal import Principal
from auth.store import KeyStore
from auth.usage.store import UsageStore
from observability.logs import get_logger

# A key with an allow-list of a few thousand models.
_BODY = BodyLimits(max_bytes=1_048_576, max_items=16_384, timeout_s=30.0)


@dataclass(frozen=True, eq=False)
class Administration:
    """Held by the app's state; every route reads it from there."""

    keys: KeyStore
    usage: UsageStore
    peppers: Callable[[], Peppers]  # those in force; raises the errors of a pepper
    changed: Callable[[], Awaitable[None]]  # has this gateway, then the others, read the keys again
    seen: Callable[[Principal], None]  # hears of every caller
    now: Callable[[], float] = time.time

    async def tell(self) -> None:
        """The change is made whatever comes of this: the others, if not told, find it by asking."""
        try:
            await self.changed()
        except AuthError as error:
            get_logger().warning("key_change_untold", error=type(error).__name__)


def administration_of(request: Request) -> Administration:
    administration: Administration = request.app.state.administration
    return administration


def actor_of(request: Request) -> str:
    """Who answers for a change in the audit log: the key id of the administrator."""
    kid = context_of(request).principal.kid
    assert kid is not None  # noqa: S101  the anonymous have no admin scope
    return kid


async def read_body(request: Request) -> JsonObject:
    """The JSON object of the request; empty where it has no body. Raises ApiError."""
    length = request.headers.get("content-length", "0")
    if length == "0" and "transfer-encoding" not in request.headers:
        return {}
    return await read_object(request, _BODY)


def answer(value: Any) -> Response:
    """Never kept on the way: it may hold a key."""
    headers = {"cache-control": "no-store"}
    return Response(orjson.dumps(value), headers=headers, media_type="application/json")
