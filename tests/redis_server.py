"""Private Redis servers for the tests: one a module, on a unix socket or a free port."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from redis import Redis
from server_start import wait_until_answers

# Another server that speaks the protocol: see `make redis-versions`.
SERVER = os.environ.get("TEST_REDIS_SERVER", "redis-server")


class RedisServer:
    """A `redis-server` that keeps nothing. It can be killed, and come back empty."""

    def __init__(self, directory: Path, options: Sequence[str] = (), port: int = 0) -> None:
        """`port` 0: a unix socket alone."""
        self.socket = directory / f"redis-{port}.sock"
        self.port = port
        self._options = list(options)
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0" if self.port else f"unix://{self.socket}?db=0"

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        command = [
            *(SERVER, "--port", str(self.port), "--bind", "127.0.0.1"),
            *("--unixsocket", str(self.socket), "--dir", str(self._directory)),
            *("--save", "", "--appendonly", "no", "--loglevel", "warning", "--hz", "100"),
            *self._options,
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until_answers(self._process, self._answers, every_s=0.005)

    def call(self, *arguments: str) -> str:
        """One command by `redis-cli`, beside whatever the test does."""
        command = ["redis-cli", "-s", str(self.socket), *arguments]
        output = subprocess.run(command, check=True, capture_output=True).stdout
        return output.decode(errors="replace").strip()

    def client(self) -> Redis:
        """To look into it, beside whatever the test does."""
        return Redis(unix_socket_path=str(self.socket), protocol=2)

    def kill(self) -> None:
        """As a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(10)
            self._process = None

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.socket))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith((b"+PONG", b"-NOAUTH"))
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running_redis(options: Sequence[str] = (), port: int = 0) -> Iterator[RedisServer]:
    """A server of its own, gone afterwards. Its directory has a short name, as sockets need."""
    directory = Path(tempfile.mkdtemp(prefix="redis-"))
    server = RedisServer(directory, options, port)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(directory)
