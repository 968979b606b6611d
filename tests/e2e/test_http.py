"""One real server and clients that write their own bytes."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import orjson
import pytest
from raw_http import AMBIGUOUS, SMUGGLED, Answer, answers_of, check_refusal, get
from server_process import ServerProcess, serving

BODY = orjson.dumps({"model": "all-MiniLM-L6-v2", "input": "a text"})
LAST = b"Connection: close"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("data"), "--self-test", "off") as server:
        assert server.url, "".join(server.stderr)
        yield server
        assert server.stop() == 0


@contextmanager
def connection(server: ServerProcess) -> Iterator[socket.socket]:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        yield raw


def to_the_end(raw: socket.socket) -> list[Answer]:
    """All that comes until the server closes, which it must do."""
    parts = []
    while part := raw.recv(65_536):
        parts.append(part)
    return answers_of(b"".join(parts))


def answers(server: ServerProcess, *parts: bytes) -> list[Answer]:
    with connection(server) as raw:
        raw.sendall(b"".join(parts))
        return to_the_end(raw)


def pour(raw: socket.socket, start: bytes) -> None:
    """Never stop of oneself."""
    raw.sendall(start)
    limit_s = time.monotonic() + 20
    while time.monotonic() < limit_s:
        raw.sendall(b"x" * 65_536)


def embedding(*headers: bytes, body: bytes = BODY) -> bytes:
    return b"\r\n".join(
        [
            b"POST /v1/embeddings HTTP/1.1",
            b"Host: a",
            b"Content-Length: %d" % len(body),
            *headers,
            b"",
            body,
        ]
    )


def test_nothing_is_smuggled_behind_an_ambiguous_request(server: ServerProcess) -> None:
    for request in AMBIGUOUS.values():
        (answer,) = answers(server, request, SMUGGLED)
        check_refusal(answer, 400)


def test_refusal_is_logged_under_its_id(server: ServerProcess) -> None:
    (answer,) = answers(server, b"GET / HTTP/1.1\r\n\r\n")
    check_refusal(answer, 400)
    request_id = answer.headers["x-request-id"]
    server.wait_for(lambda: any(line.get("request_id") == request_id for line in server.log))


def test_huge_head_is_cut(server: ServerProcess) -> None:
    start = b"GET / HTTP/1.1\r\nHost: a\r\nX: "
    (whole,) = answers(server, start, b"x" * 40_000, b"\r\n\r\n")
    check_refusal(whole, 431)
    before_bytes = server.metric("process_resident_memory_bytes")
    with connection(server) as raw, pytest.raises(ConnectionError):
        pour(raw, start)
    assert server.metric("process_resident_memory_bytes") < before_bytes + 50e6


def test_too_many_headers_are_refused(server: ServerProcess) -> None:
    headers = [f"X-{i}: x".encode() for i in range(100)]  # beside Host
    (answer,) = answers(server, get("/health/live", *headers))
    check_refusal(answer, 431)


def test_silent_and_dripping_connections_are_closed(server: ServerProcess) -> None:
    started_s = time.monotonic()
    with connection(server) as silent, connection(server) as dripping:
        dripping.settimeout(0.5)
        closed = False
        while not closed:
            dripping.send(b"G" if time.monotonic() - started_s < 0.4 else b"E")
            try:
                closed = not dripping.recv(1)
            except TimeoutError:
                continue
        assert to_the_end(silent) == []
    assert 4.5 < time.monotonic() - started_s < 9


def test_trickled_body_is_a_408_at_its_deadline(server: ServerProcess) -> None:
    started_s = time.monotonic()
    (answer,) = answers(server, embedding(b"X-Florilege-Timeout-Ms: 500")[:-5])
    check_refusal(answer, 408)
    assert 0.4 < time.monotonic() - started_s < 5


def test_pipelined_and_kept_alive_requests_are_answered_in_order(server: ServerProcess) -> None:
    with connection(server) as raw:
        raw.sendall(get("/health/live"))
        assert raw.recv(65_536).startswith(b"HTTP/1.1 200")
        raw.sendall(embedding() + get("/v1/models") + embedding(LAST))
        first, second, third = to_the_end(raw)
    assert (first.status, second.status, third.status) == (200, 200, 200)
    assert first.json()["data"][0]["embedding"] == third.json()["data"][0]["embedding"]
    assert second.json()["data"][0]["object"] == "model"


def test_body_is_read_though_a_client_offers_http_2(server: ServerProcess) -> None:
    offer = (b"Connection: Upgrade, HTTP2-Settings, close", b"Upgrade: h2c", b"HTTP2-Settings: AA")
    (answer,) = answers(server, embedding(*offer))
    assert answer.status == 200
    assert len(answer.json()["data"]) == 1


def test_health_answers_to_head_and_odd_paths_break_nothing(server: ServerProcess) -> None:
    with server.client() as client:
        for path in ("/health/live", "/health/ready"):
            head, body = client.head(path), client.get(path)
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-length"] == str(len(body.content))
    (answer,) = answers(server, get("//", LAST))
    assert answer.status == 404
    assert answer.json()["error"]["message"].startswith("Invalid URL")
