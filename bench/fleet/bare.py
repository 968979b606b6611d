"""The protocol without the transport: its scripts over blocking sockets, no event loop.

    python -m bench.fleet.bare HOST PORT

answers jobs as `bench.fleet.echo` does.
"""

import socket
import sys
import time
from functools import partial
from typing import Any

import hiredis

from transport.redis.entries import Entry, answer_keys, job_keys
from transport.redis.keys import GROUP, model_keys, reply_key
from transport.redis.scripts import FINISH, SUBMIT, Script

MODEL = "bare"
_GATEWAY = "bare"
_ANSWER = bytes(1_800)  # as large as a vector of 384 numbers with its header
_BLOCK_MS = 1_000


class Socket:
    """Commands, one after another, over one connection."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()

    def send(self, *arguments: Any) -> None:
        self._socket.sendall(hiredis.pack_command(arguments))

    def read(self) -> Any:
        while (answer := self._reader.gets()) is False:
            received = self._socket.recv(65_536)
            if not received:
                raise ConnectionError("Redis went away")
            self._reader.feed(received)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask(self, *arguments: Any) -> Any:
        self.send(*arguments)
        return self.read()

    def load(self, script: Script) -> bytes:
        """The name that `run` knows it by."""
        name: bytes = self.ask("SCRIPT", "LOAD", script.text)
        return name

    def run(self, script: bytes, keys: tuple[str, ...], *arguments: Any) -> Any:
        return self.ask("EVALSHA", script, len(keys), *keys, *arguments)

    def close(self) -> None:
        self._socket.close()


class Gateway:
    """Submits a job, and reads the stream of answers meanwhile."""

    def __init__(self, host: str, port: int) -> None:
        self._commands, self._replies = Socket(host, port), Socket(host, port)
        self._stream, self._read_until = reply_key(_GATEWAY), b"0-0"
        self._commands.ask("XGROUP", "CREATE", self._stream, "x", "0", "MKSTREAM")
        self._submit = self._commands.load(SUBMIT)

    def ask(self, job_id: str, tokens: int, frame: bytes) -> tuple[float, float]:
        """When the worker had the job, and when it answered."""
        start = ("STREAMS", self._stream, self._read_until)
        self._replies.send("XREAD", "COUNT", 1, "BLOCK", 60_000, *start)
        fields = ("t", tokens, "b", 60_000, "j", job_id, "g", _GATEWAY, "m", frame)
        self._commands.run(self._submit, job_keys(MODEL, job_id), 1, "first", 100, 60_000, *fields)
        ((_, ((self._read_until, values),)),) = self._replies.read()
        self._commands.send("XTRIM", self._stream, "MAXLEN", 0)
        received, answered = values[9].rstrip(b"\0").split()
        self._commands.read()
        return float(received), float(answered)

    def ping(self) -> None:
        self._commands.ask("PING")

    def close(self) -> None:
        self._commands.close()
        self._replies.close()


def main(host: str, port: int) -> None:
    worker, queue = Socket(host, port), model_keys(MODEL).queues[0]
    finish = worker.load(FINISH)
    worker.ask("XGROUP", "CREATE", queue, GROUP, "0", "MKSTREAM")
    print('{"event":"serving"}', flush=True)
    take = partial(worker.ask, "XREADGROUP", "GROUP", GROUP, "w")
    while True:
        found = take("COUNT", 1, "BLOCK", _BLOCK_MS, "STREAMS", queue, ">")
        for _, entries in found or ():
            for entry_id, values in entries:
                received_s = time.perf_counter()
                entry = Entry(
                    entry_id.decode(),
                    MODEL,
                    "online",
                    int(values[1]),
                    values[5].decode(),
                    values[7].decode(),
                )
                stamps = f"{received_s!r} {time.perf_counter()!r}".encode()
                head = (1, GROUP, entry.id, entry.tokens, entry.job_id, 10_000)
                answer = stamps.ljust(len(_ANSWER), b"\0")
                worker.run(finish, answer_keys(entry), *head, answer)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
