"""Body bytes to a JSON object: bounded, never decompressed, JSON whatever the header says."""

import asyncio
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request

from api.context import context_of
from api.errors import ApiError

JsonObject = dict[str, Any]

_ITEM_MARKS = (b",", b"[", b"{")


@dataclass(frozen=True)
class BodyLimits:
    max_bytes: int
    max_items: int  # commas and brackets: what parsing takes time and memory for
    timeout_s: float  # to receive it


async def read_object(request: Request, limits: BodyLimits) -> JsonObject:
    """The request's JSON object.

    Raises:
        ApiError: 408 after the time, 413 over the bytes, 415 for a content encoding, 400 for too
            many items or anything but an object.
        ClientDisconnect: the client left while sending.
    """
    headers = context_of(request).asked
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise ApiError("content_encoding", "Request bodies are taken uncompressed only.")
    try:
        async with asyncio.timeout(limits.timeout_s):
            body = await _read(request, headers.get("content-length", ""), limits.max_bytes)
    except TimeoutError:
        message = f"The request body was not received within {limits.timeout_s:.1f} seconds."
        raise ApiError("body_timeout", message) from None
    # Counted before parsing: millions of small items would stop the event loop for seconds and
    # take gigabytes, however few bytes they have. Counting takes 1 ms for each megabyte.
    if len(body) > limits.max_items and sum(map(body.count, _ITEM_MARKS)) > limits.max_items:
        message = f"The request body holds more than {limits.max_items} items."
        raise ApiError("too_many_tokens", message)
    return parse_object(body, headers.get("content-type"))


def parse_object(body: bytes, content_type: str | None) -> JsonObject:
    try:
        value = orjson.loads(body)
    except (orjson.JSONDecodeError, RecursionError):
        raise _unparsable(content_type) from None
    if not isinstance(value, dict):
        raise ApiError("bad_json", "The request body must be a JSON object.")
    return value


def _unparsable(content_type: str | None) -> ApiError:
    media = (content_type or "").split(";")[0].strip().lower()
    if media and media != "application/json" and not media.endswith("+json"):
        message = "Unsupported content type. This API method only accepts 'application/json'."
        return ApiError("not_json", message)
    return ApiError(
        "bad_json",
        "We could not parse the JSON body of your request. (HINT: This likely means you aren't "
        "using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was "
        "sent was not valid JSON.)",
    )


async def _read(request: Request, announced: str, max_bytes: int) -> bytes:
    """`announced`: its Content-Length, '' where it has none."""
    if announced.isdigit() and int(announced) > max_bytes:
        raise _too_large(max_bytes, announced)
    chunks, size = [], 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(max_bytes, f"more than {max_bytes}")
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(max_bytes: int, read: str) -> ApiError:
    message = f"Maximum content size limit ({max_bytes}) exceeded ({read} bytes read)"
    return ApiError("body_too_large", message)
