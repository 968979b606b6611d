"""HTTP as bytes: requests that no library would send, and their answers, taken apart."""

from typing import Any, NamedTuple

import orjson

HEAD = b"POST /echo HTTP/1.1\r\nHost: a\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

# Requests whose end two parsers may see in two places; each is followed by one to smuggle in.
AMBIGUOUS = {
    "length and chunked": HEAD
    + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX",
    "chunked and length": HEAD
    + b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\nX",
    "two lengths": HEAD + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\nabcde",
    "list of lengths": HEAD + b"Content-Length: 1, 1\r\n\r\na",
    "signed length": HEAD + b"Content-Length: +1\r\n\r\na",
    "unknown coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "coding after chunked": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunked twice": HEAD
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare LF": b"POST /echo HTTP/1.1\r\nHost: a\nContent-Length: 0\r\n\r\n",
    "bare LF ends the head": b"POST /echo HTTP/1.1\r\nHost: a\r\n\n",
    "bare CR": HEAD + b"X: a\rContent-Length: 1\r\n\r\na",
    "folded header": HEAD + b"X: a\r\n b\r\n\r\n",
    "folded coding": HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "space before the colon": HEAD + b"Content-Length : 1\r\n\r\na",
    "NUL in a value": HEAD + b"X: \x00\r\n\r\n",
    "chunk size that is no number": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n",
    "chunk longer than its size": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n",
    "chunk size ended by LF": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\nab\r\n0\r\n\r\n",
    "chunk size that overflows": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\nab\r\n0\r\n\r\n",
}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)


def answers_of(stream: bytes) -> list[Answer]:
    """Every answer in what a server sent, each under its content-length."""
    answers = []
    while stream:
        head, _, stream = stream.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
        length = int(headers["content-length"])
        answers.append(Answer(int(status.split()[1]), headers, stream[:length]))
        stream = stream[length:]
    return answers


def get(path: str = "/", *headers: bytes) -> bytes:
    lines = (f"GET {path} HTTP/1.1".encode(), b"Host: a", *headers, b"", b"")
    return b"\r\n".join(lines)


def check_refusal(answer: Answer, status: int) -> None:
    """That an answer of the protocol itself looks like any error of the API."""
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["connection"] == "close"
    assert answer.headers["x-request-id"].startswith("req_")
    body = answer.json()
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["message"] == body["detail"] == body["error"]["message"]
