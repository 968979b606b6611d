"""HTTP/1.1 as strangers speak it: uvicorn's protocol, bounded in bytes, in time and in number."""

import asyncio
from enum import Enum, auto
from typing import Any

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from api.errors import ApiError
from observability.logs import get_logger
from observability.request_id import new_id

# What the parser is given at once, and so what a head behind another request in one read may have
# above its limit: within a piece nobody sees where a head began.
_PIECE_BYTES = 16 * 1024


class _Phase(Enum):
    """What a connection waits for."""

    RECEIVING = auto()  # the client, who owes the rest of a request
    ANSWERING = auto()  # us; the deadline of a request bounds it
    IDLE = auto()  # nobody


class HttpProtocol(HttpToolsProtocol):
    """One connection. Whatever it refuses, it refuses in the API's own envelope, and closes.

    The bytes of a head (request line, headers; trailers likewise) are counted as they come in,
    since the parser keeps an unfinished header in memory however long it grows.
    """

    max_head_bytes = 32 * 1024
    max_headers = 100
    max_pipelined = 100  # requests waiting behind the one that is answered
    max_connections = 16_384
    receive_timeout_s = 5.0  # of a head; and of the body left over when the answer is out
    linger_s = 1.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._running: RequestResponseCycle | None = None  # uvicorn's `cycle` is the newest one
        self._refusal: ApiError | None = None
        self._clocked: _Phase | None = None  # the phase whose timer is set
        self._receiving = True  # within a request, or before the first
        self._in_head = True  # or in what follows a chunk's size, which may be the trailers
        self._in_body = False
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_clock()
        if len(self.connections) > self.max_connections:
            message = "The server has too many connections, please try again later."
            self._refuse(ApiError("overloaded", message, retry_after_s=1.0))

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_keepalive_if_required()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and self._refusal is None:
            rest = rest[self._feed(rest) :]
        if self._refusal is None:  # else the bytes are read only to be thrown away
            self._set_clock()

    def _feed(self, data: memoryview) -> int:
        """Parse the beginning of `data`; how many bytes that was."""
        piece = data[:_PIECE_BYTES]
        if self._in_head:
            piece = piece[: self.max_head_bytes - self._head_bytes]
            self._head_bytes += len(piece)
            if not piece:
                self._refuse(_too_large(f"more than {self.max_head_bytes} bytes"))
                return len(data)
        parsed_bytes = len(piece)
        try:
            offset = self._parse(piece)
            if offset is not None:
                parsed_bytes = offset
                head = self._head_without_upgrade()
                self.parser = _parser(self)  # the old one may be done, after `Connection: close`
                self.parser.feed_data(head)
        except httptools.HttpParserError as error:
            cause = error.__context__  # what a callback of ours raised
            malformed = ApiError("bad_http", "The request is not valid HTTP.")
            self._refuse(cause if isinstance(cause, ApiError) else malformed)
        return parsed_bytes

    def _parse(self, piece: memoryview) -> int | None:
        """Where the parser stopped, after a head that offers another protocol."""
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            return int(upgrade.args[0])
        return None

    def _head_without_upgrade(self) -> bytes:
        """The head again, without an offer that we are free to ignore.

        Java's client offers h2c with every first request. The parser skips the body of such a
        request, and would take it for the next one.
        """
        version = self.parser.get_http_version().encode()
        head = [self.parser.get_method(), b" ", self.url, b" HTTP/", version, b"\r\n"]
        for name, value in self.headers:
            if name != b"upgrade":
                head += [name, b": ", value, b"\r\n"]
        return b"".join([*head, b"\r\n"])

    # What the parser finds, in this order.

    def on_message_begin(self) -> None:
        self._receiving = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:
            return  # a trailer: it must not pass for a header
        if len(self.headers) == self.max_headers:
            raise _too_large(f"more than {self.max_headers} headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        version = self.parser.get_http_version()
        hosts = sum(name == b"host" for name, _ in self.headers)
        if version not in ("1.0", "1.1"):
            raise ApiError("bad_http", "HTTP/1.1 and HTTP/1.0 are spoken here.")
        if hosts > 1 or (hosts == 0 and version == "1.1"):
            raise ApiError("bad_http", "A request needs one Host header.")
        if self.parser.get_method() == b"CONNECT":
            raise ApiError("bad_http", "This server is no proxy.")
        if self.parser.should_upgrade():
            return  # the parser stops after this head
        if len(self.pipeline) == self.max_pipelined:
            message = "Too many requests at once on one connection."
            raise ApiError("overloaded", message, retry_after_s=1.0)
        super().on_headers_complete()
        self._in_head = False
        self._in_body = True

    def on_chunk_header(self) -> None:
        self._in_head = True
        self._head_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._in_head = False
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._in_body:
            return  # of a head that is about to be parsed again
        super().on_message_complete()
        self._receiving = self._in_body = False
        self._in_head = True
        self._head_bytes = 0

    # Answers.

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        cycle.transport = _WholeAnswer(cycle)  # type: ignore[assignment]
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        if self._running is not None:
            self._running.transport.flush()  # type: ignore[attr-defined]
        super().on_response_complete()  # starts the next request, if one waits
        if self.transport.is_closing():
            return
        if self._refusal is None:
            self._set_clock()
        elif not self._answering:
            self._write_refusal(self._refusal)

    @property
    def _answering(self) -> bool:
        return self._running is not None and not self._running.response_complete

    def _refuse(self, error: ApiError) -> None:
        """Answer in the place of the request at fault: after those that came before it."""
        self._refusal = error
        if self._in_body and self.pipeline:
            self.pipeline.popleft()  # the newest: its body is the fault
        elif self._in_body and self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()
            if self._running.response_started:
                self.transport.close()
                return
            self._running = None
        if not self._answering:
            self._write_refusal(error)

    def _write_refusal(self, error: ApiError) -> None:
        """The answer and the end of it; then a while of deafness.

        A socket closed over unread bytes resets the connection, and the answer may be lost.
        """
        request_id = new_id("req_")
        status = error.row.status
        get_logger().info("refused", request_id=request_id, status=status, reason=error.message)
        body = error.body()
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "x-request-id": request_id,
            **error.headers(),
            "connection": "close",
        }
        lines = [(name.encode(), value.encode()) for name, value in headers.items()]
        head = [STATUS_LINE[status]]
        for name, value in (*self.server_state.default_headers, *lines):
            head += [name, b": ", value, b"\r\n"]
        self.transport.write(b"".join([*head, b"\r\n", body]))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self._close_after(self.linger_s)

    # Time.

    def _set_clock(self) -> None:
        """One timer a connection, set when its phase changes: a dripping client restarts none."""
        if self._answering:
            phase = _Phase.ANSWERING
        else:
            phase = _Phase.RECEIVING if self._receiving else _Phase.IDLE
        if phase is self._clocked:
            return
        self._clocked = phase
        self._unset_keepalive_if_required()
        if phase is _Phase.RECEIVING:
            self._close_after(self.receive_timeout_s)
        elif phase is _Phase.IDLE:
            self._close_after(self.timeout_keep_alive)

    def _close_after(self, limit_s: float) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            limit_s, self.timeout_keep_alive_handler
        )


class _WholeAnswer:
    """A transport on which an answer's head waits for its body.

    They go in one write: two are two system calls, and wake the client twice. No answer of ours
    begins before its body is known.
    """

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._head: bytes | None = None  # b"" once it is written

    def write(self, data: bytes) -> None:
        if self._head is None and self._cycle.response_started:  # else: 100 Continue
            self._head = data
        elif self._head:
            self._transport.writelines([self._head, data])
            self._head = b""
        else:
            self._transport.write(data)

    def flush(self) -> None:
        """Of an answer without a body the head is all."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self.flush()
        self._transport.close()


def _parser(protocol: HttpProtocol) -> httptools.HttpRequestParser:
    """As uvicorn makes it: what follows the last request of a connection is not an error."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _too_large(what: str) -> ApiError:
    return ApiError("headers_too_large", f"The head of the request is too large: {what}.")
