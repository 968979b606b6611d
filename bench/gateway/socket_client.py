"""A client of one blocking socket: it costs so little that what it measures is the server."""

import re
import socket
import time
from typing import NamedTuple
from urllib.parse import urlsplit

from bench.client import RequestFailed

_READ_BYTES = 1 << 20


class Reply(NamedTuple):
    began_s: float  # by time.perf_counter
    ended_s: float
    stages_s: dict[str, float]  # of Server-Timing


class SocketClient:
    """Kept alive. Requests are whole before they are timed."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._host = place.netloc
        self._socket = socket.create_connection((place.hostname, place.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._socket.close()

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: {self._host}\r\naccept: */*\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def send(self, request: bytes) -> Reply:
        """Raises RequestFailed."""
        began_s = time.perf_counter()
        self._socket.sendall(request)
        head, _ = self._read()
        ended_s = time.perf_counter()
        return Reply(began_s, ended_s, _stages(head))

    def get(self, path: str) -> bytes:
        """The body. Raises RequestFailed."""
        self._socket.sendall(self.request("GET", path))
        _, body = self._read()
        return body

    def _read(self) -> tuple[bytes, bytes]:
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._receive()
        head, _, body = answer.partition(b"\r\n\r\n")
        size = int(_header(head, b"content-length"))
        pieces, missing = [body], size - len(body)
        while missing > 0:
            pieces.append(self._receive())
            missing -= len(pieces[-1])
        content = b"".join(pieces)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RequestFailed(f"{head[:20].decode()}: {content[:200].decode()}")
        return head, content

    def _receive(self) -> bytes:
        received = self._socket.recv(_READ_BYTES)
        if not received:
            raise RequestFailed("the server closed the connection")
        return received


def _header(head: bytes, name: bytes) -> bytes:
    found = re.search(rb"(?im)^%b: *([^\r\n]*)" % name, head)
    return found[1] if found else b""


def _stages(head: bytes) -> dict[str, float]:
    timing = _header(head, b"server-timing").decode()
    return {name: float(ms) / 1000 for name, ms in re.findall(r"(\w+);dur=([\d.]+)", timing)}
