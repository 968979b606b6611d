"""What a client may do to a connection, against a real server on loopback and its own clock."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
import uvicorn
from raw_http import AMBIGUOUS, HEAD, SMUGGLED, Answer, answers_of, check_refusal, get
from uvicorn.server import ServerState

from cli.http_protocol import HttpProtocol
from cli.http_server import HttpServer, PortTaken

Message = MutableMapping[str, Any]
WaitUntil = Callable[..., Awaitable[None]]

LIMIT_S = 0.2  # of receiving, in these tests


class Quick(HttpProtocol):
    receive_timeout_s = LIMIT_S
    linger_s = 0.05


class Bytewise(Quick):
    """Every byte comes alone."""

    def data_received(self, data: bytes) -> None:
        for i in range(len(data)):
            super().data_received(data[i : i + 1])


class Narrow(Quick):
    max_connections = 2
    max_pipelined = 3


class Echo:
    """Answers with what it was asked; /early does not read, /gated waits for `gate`,
    /watched for its client to go."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.left: list[str] = []  # whose client went
        self.gate = asyncio.Event()

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        path = scope["path"]
        self.paths.append(path)
        body = b""
        if path != "/early":
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    self.left.append(path)
                    return
                body += message["body"]
                more = message["more_body"] or path == "/watched"
        if path == "/gated":
            await self.gate.wait()
        names = [name.decode() for name, _ in scope["headers"]]
        content = orjson.dumps({"path": path, "size": len(body), "headers": names})
        headers = [(b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, *parts: bytes) -> None:
        self._writer.write(b"".join(parts))

    async def to_the_end(self) -> list[Answer]:
        """All that comes until the server closes, which it must do."""
        async with asyncio.timeout(5):
            return answers_of(await self._reader.read())

    async def answer(self) -> Answer:
        async with asyncio.timeout(5):
            head = await self._reader.readuntil(b"\r\n\r\n")
            (empty,) = answers_of(head)
            body = await self._reader.readexactly(int(empty.headers["content-length"]))
        return empty._replace(body=body)

    async def head(self) -> bytes:
        async with asyncio.timeout(5):
            return await self._reader.readuntil(b"\r\n\r\n")

    async def is_silent(self, for_s: float) -> bool:
        """Whether the server neither says anything nor closes for a while."""
        try:
            await asyncio.wait_for(self._reader.read(1), for_s)
        except TimeoutError:
            return True
        return False

    async def ask(self, *parts: bytes) -> Answer:
        self.send(*parts)
        return await self.answer()

    def leave(self) -> None:
        self._writer.close()


class Site:
    """A listening protocol with its app, and connections to it."""

    def __init__(self, server: asyncio.Server, app: Echo) -> None:
        self._server = server
        self._connections: list[Connection] = []
        self.app = app

    async def connect(self) -> Connection:
        address = self._server.sockets[0].getsockname()
        connection = Connection(*await asyncio.open_connection(*address))
        self._connections.append(connection)
        return connection

    async def answers(self, *parts: bytes) -> list[Answer]:
        """What one connection gets for these bytes, until the server closes."""
        connection = await self.connect()
        connection.send(*parts)
        return await connection.to_the_end()

    def leave(self) -> None:
        for connection in self._connections:
            connection.leave()


@asynccontextmanager
async def serving(protocol: type[HttpProtocol] = Quick) -> AsyncIterator[Site]:
    app, state = Echo(), ServerState()
    config = uvicorn.Config(app, http=protocol, log_config=None, timeout_keep_alive=75)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
    site = Site(server, app)
    try:
        yield site
    finally:
        app.gate.set()
        site.leave()
        server.close()
        async with asyncio.timeout(5):
            while state.connections or state.tasks:
                await asyncio.sleep(0.001)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving() as site:
        yield site


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
LAST = b"Connection: close"


# Bytes


@pytest.mark.parametrize("protocol", [Quick, Bytewise])
async def test_ambiguous_request_is_refused_and_what_follows_it_never_read(
    protocol: type[HttpProtocol],
) -> None:
    async with serving(protocol) as site:
        for name, request in AMBIGUOUS.items():
            (answer,) = await site.answers(request, SMUGGLED)
            check_refusal(answer, 400)
            assert answer.json()["error"]["type"] == "invalid_request_error", name
        assert "/smuggled" not in site.app.paths


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",  # TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
async def test_what_is_not_a_request_to_this_server_is_refused(
    site: Site, request_bytes: bytes
) -> None:
    (answer,) = await site.answers(request_bytes)
    check_refusal(answer, 400)
    assert not site.app.paths


async def test_http_1_0_needs_no_host(site: Site) -> None:
    (answer,) = await site.answers(b"GET / HTTP/1.0\r\n\r\n")
    assert answer.status == 200


@pytest.mark.parametrize("protocol", [Quick, Bytewise])
async def test_head_may_be_as_large_as_the_limit_and_no_larger(
    protocol: type[HttpProtocol],
) -> None:
    room = HttpProtocol.max_head_bytes - len(get("/", LAST, b"X: "))
    async with serving(protocol) as site:
        (fits,) = await site.answers(get("/", LAST, b"X: " + b"x" * room))
        (exceeds,) = await site.answers(get("/", LAST, b"X: " + b"x" * (room + 1)))
    assert fits.status == 200
    check_refusal(exceeds, 431)


async def test_header_that_never_ends_is_cut_at_the_limit(site: Site) -> None:
    start = b"GET / HTTP/1.1\r\nHost: a\r\nX: "
    connection = await site.connect()
    connection.send(start, b"x" * (HttpProtocol.max_head_bytes + 1 - len(start)))
    (answer,) = await connection.to_the_end()
    check_refusal(answer, 431)


async def test_refusal_reaches_a_client_that_still_sends(site: Site) -> None:
    (answer,) = await site.answers(b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"x" * 8_000_000)
    check_refusal(answer, 431)


async def test_hundred_headers_pass_and_one_more_does_not(site: Site) -> None:
    headers = [f"X-{i}: x".encode() for i in range(98)]  # beside Host and Connection
    (passes,) = await site.answers(get("/", LAST, *headers))
    (exceeds,) = await site.answers(get("/", LAST, *headers, b"X: x"))
    assert (passes.status, len(passes.json()["headers"])) == (200, 100)
    check_refusal(exceeds, 431)


async def test_trailers_are_bounded_and_pass_for_no_header(site: Site) -> None:
    connection = await site.connect()
    answer = await connection.ask(CHUNKED, b"2\r\nab\r\n0\r\nAuthorization: x\r\n\r\n")
    assert answer.json() == {"path": "/echo", "size": 2, "headers": ["host", "transfer-encoding"]}
    for trailer in (b"X: " + b"x" * 65_536, b"X: x\r\n" * 16_384):
        (refused,) = await site.answers(CHUNKED, b"2\r\nab\r\n0\r\n", trailer)
        check_refusal(refused, 431)


@pytest.mark.parametrize("protocol", [Quick, Bytewise])
async def test_body_arrives_whole_by_length_and_by_chunks(protocol: type[HttpProtocol]) -> None:
    size = 300_000 if protocol is Quick else 20_000
    chunks = b"%x\r\n%s\r\n" % (size, b"x" * size) + b"1\r\ny\r\n" * 100 + b"0\r\n\r\n"
    async with serving(protocol) as site:
        connection = await site.connect()
        by_length = await connection.ask(HEAD, b"Content-Length: %d\r\n\r\n" % size, b"x" * size)
        by_chunks = await connection.ask(CHUNKED, chunks)
    assert by_length.json()["size"] == size
    assert by_chunks.json()["size"] == size + 100


@pytest.mark.parametrize("protocol", [Quick, Bytewise])
async def test_offer_of_another_protocol_is_ignored_and_the_body_kept(
    protocol: type[HttpProtocol],
) -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"
    websocket = (b"Connection: Upgrade", b"Upgrade: websocket")
    async with serving(protocol) as site:
        connection = await site.connect()
        connection.send(HEAD, offer, b"Content-Length: 3\r\n\r\nabc", get("/next", *websocket))
        first, second = await connection.answer(), await connection.answer()
        third = await connection.ask(get("/third"))
        (last,) = await site.answers(get("/last", b"Connection: close, Upgrade", b"Upgrade: h2c"))
    assert (first.json()["path"], first.json()["size"]) == ("/echo", 3)
    assert "upgrade" not in first.json()["headers"]
    assert second.json()["path"] == "/next"
    assert third.json()["path"] == "/third"
    assert last.json()["path"] == "/last"


# Order


@pytest.mark.parametrize("protocol", [Quick, Bytewise])
async def test_pipelined_requests_are_answered_in_order(protocol: type[HttpProtocol]) -> None:
    async with serving(protocol) as site:
        connection = await site.connect()
        body = HEAD + b"Content-Length: 3\r\n\r\nabc"
        connection.send(get("/1"), body, get("/2"), CHUNKED, b"1\r\na\r\n0\r\n\r\n", get("/3"))
        answers = [await connection.answer() for _ in range(5)]
    assert [a.json()["path"] for a in answers] == ["/1", "/echo", "/2", "/echo", "/3"]
    assert [a.json()["size"] for a in answers] == [0, 3, 0, 1, 0]


async def test_answer_without_a_body_is_sent_at_once_and_before_the_end(site: Site) -> None:
    connection = await site.connect()
    connection.send(b"HEAD /kept HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await connection.head()).startswith(b"HTTP/1.1 200")
    assert (await connection.ask(get("/next"))).json()["path"] == "/next"
    (last,) = await site.answers(b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert last.status == 200


@pytest.mark.parametrize(
    "bad", [b"GET / HTTP/1.1\r\n\r\n", CHUNKED + b"zz\r\n", AMBIGUOUS["length and chunked"]]
)
async def test_bad_request_is_refused_after_those_before_it_are_answered(
    site: Site, bad: bytes
) -> None:
    connection = await site.connect()
    connection.send(get("/gated"), get("/second"), bad, SMUGGLED)
    assert await connection.is_silent(LIMIT_S / 2)
    site.app.gate.set()
    first, second, refused = await connection.to_the_end()
    assert (first.json()["path"], second.json()["path"]) == ("/gated", "/second")
    check_refusal(refused, 400)
    assert site.app.paths == ["/gated", "/second"]


async def test_bad_body_is_refused_and_its_request_told(site: Site, wait_until: WaitUntil) -> None:
    (answer,) = await site.answers(CHUNKED, b"zz\r\n")
    check_refusal(answer, 400)
    await wait_until(lambda: site.app.left == ["/echo"])


async def test_request_with_a_bad_body_has_one_answer(
    site: Site, wait_until: WaitUntil, caplog: pytest.LogCaptureFixture
) -> None:
    (answer,) = await site.answers(CHUNKED.replace(b"/echo", b"/early"), b"zz\r\n")
    check_refusal(answer, 400)
    await wait_until(lambda: site.app.paths == ["/early"])
    assert not caplog.records  # a second answer would fail on the closed connection


async def test_bad_body_behind_its_answer_closes_the_connection(site: Site) -> None:
    connection = await site.connect()
    early = b"POST /early HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert (await connection.ask(early)).status == 200
    connection.send(b"zz\r\n")
    assert await connection.to_the_end() == []


async def test_client_that_leaves_ends_its_request_though_another_waits_behind(
    site: Site, wait_until: WaitUntil
) -> None:
    connection = await site.connect()
    connection.send(get("/watched"), get("/behind"))
    await wait_until(lambda: site.app.paths == ["/watched"])
    connection.leave()
    await wait_until(lambda: site.app.left == ["/watched"])


# Number


async def test_connection_too_many_is_told_to_come_back() -> None:
    async with serving(Narrow) as site:
        first, second = await site.connect(), await site.connect()
        assert (await first.ask(get())).status == (await second.ask(get())).status == 200
        (answer,) = await site.answers(get())
        check_refusal(answer, 503)
        assert answer.json()["error"]["code"] == "server_is_overloaded"
        assert answer.headers["retry-after"] == "1"
        assert (await first.ask(get())).status == 200


async def test_pipeline_too_long_is_answered_as_far_as_it_was_taken() -> None:
    async with serving(Narrow) as site:
        answers = await site.answers(get() * 100)
    assert [answer.status for answer in answers] == [200] * 4 + [503]


# Time


async def test_silent_connection_is_closed(site: Site) -> None:
    assert await site.answers() == []


@pytest.mark.parametrize("before", [b"", get()])
async def test_dripping_head_is_closed(site: Site, before: bytes) -> None:
    connection = await site.connect()
    if before:
        await connection.ask(before)
    connection.send(b"GET / HTTP/1.1\r\n")
    async with asyncio.timeout(LIMIT_S * 20):
        while await connection.is_silent(LIMIT_S / 5):
            connection.send(b"X: x\r\n")


async def test_idle_connection_stays(site: Site) -> None:
    connection = await site.connect()
    for _ in range(2):
        assert (await connection.ask(get())).status == 200
        assert await connection.is_silent(LIMIT_S * 2)
        connection.send(b"\r\n")  # some clients end a body so; it is no request


async def test_next_head_has_its_whole_time_once_the_answer_is_out(site: Site) -> None:
    connection = await site.connect()
    connection.send(get("/gated"), get("/next")[:20])
    assert await connection.is_silent(LIMIT_S * 2)
    site.app.gate.set()
    assert (await connection.answer()).json()["path"] == "/gated"
    assert (await connection.ask(get("/next")[20:])).json()["path"] == "/next"
    connection.send(get()[:20])
    assert await connection.to_the_end() == []


async def test_body_that_outlives_its_answer_must_end_soon(site: Site) -> None:
    early = b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
    connection = await site.connect()
    assert (await connection.ask(early)).status == 200
    connection.send(b"abcd")
    assert await connection.is_silent(LIMIT_S * 2)
    assert (await connection.ask(early)).status == 200
    assert await connection.to_the_end() == []


# The port


async def test_port_is_held_from_the_first_and_refuses_until_the_start() -> None:
    server = HttpServer("127.0.0.1", 0, 1.0)
    assert server.not_listening() == "starting"
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*server.address)
    await server.start(Echo())
    assert server.not_listening() is None
    with pytest.raises(PortTaken, match="cannot listen on"):
        HttpServer(*server.address, 1.0)
    await server.stop()


async def test_port_that_two_hold_goes_to_the_first_that_listens() -> None:
    first = HttpServer("127.0.0.1", 0, 1.0)
    second = HttpServer(*first.address, 1.0)
    await first.start(Echo())
    with pytest.raises(PortTaken):
        await second.start(Echo())
    await second.stop()
    await first.stop()


class Named:
    """Answers with its name."""

    def __init__(self, name: bytes) -> None:
        self.name = name

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", str(len(self.name)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self.name})


async def who_answers(address: tuple[str, int], times: int) -> set[bytes]:
    """By so many connections."""
    names = set()
    for _ in range(times):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        names.add((await reader.read()).rpartition(b"\r\n\r\n")[2])
        writer.close()
    return names


async def test_connections_are_divided_among_those_who_share_a_port() -> None:
    first = HttpServer("127.0.0.1", 0, 1.0, shared=True)
    second = HttpServer(*first.address, 1.0, shared=True)
    await first.start(Named(b"one"))
    with pytest.raises(PortTaken):
        HttpServer(*first.address, 1.0)  # does not say so
    assert await who_answers(first.address, 20) == {b"one"}  # who only holds it gets none
    await second.start(Named(b"two"))
    assert await who_answers(first.address, 60) == {b"one", b"two"}  # else a chance of 2^-59
    await first.stop()
    assert await who_answers(second.address, 20) == {b"two"}
    await second.stop()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
async def test_server_listens_on_what_it_is_called(host: str) -> None:
    server = HttpServer(host, 0, 1.0)
    await server.start(Echo())
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(get() + b"\r\n".join([b"GET / HTTP/1.1", b"", b""]))
    answer, refused = answers_of(await reader.read())
    assert answer.status == 200
    check_refusal(refused, 400)
    writer.close()
    await server.stop()
