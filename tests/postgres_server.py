"""A private PostgreSQL server for the tests: on a unix socket, with a database for each test."""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from server_start import wait_until_answers

_OPTIONS = {  # it keeps nothing, so it need not write what would last
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "shared_buffers": "16MB",
    "max_connections": "50",
    "log_min_messages": "fatal",
}


class PostgresServer:
    """A `postgres` with no other user than its superuser, who needs no password."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._data = directory / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self._run(["initdb", "--pgdata", str(self._data), *("--username", "postgres")])

    def start(self) -> None:
        options = {**_OPTIONS, "unix_socket_directories": str(self._directory)}
        command = [_tool("postgres"), "-D", str(self._data)]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **_as_user()
        )
        wait_until_answers(self._process, self._answers, every_s=0.01)

    def stop(self) -> None:
        """At once: who is connected is cut off."""
        self._end(signal.SIGQUIT)

    def make_database(self) -> str:
        """An empty one; returns its URL."""
        name = f"test_{next(self._numbers)}"
        self.call(f"CREATE DATABASE {name}", database="postgres")
        return f"postgresql+asyncpg://postgres@/{name}?host={self._directory}"

    def drop_database(self, url: str) -> None:
        self.call(f"DROP DATABASE {database_of(url)} WITH (FORCE)", database="postgres")

    def call(self, statement: str, database: str) -> list[str]:
        """The lines that `psql` prints, beside whatever the test does."""
        output = self._run(
            [
                *("psql", "--host", str(self._directory), "--username", "postgres"),
                *("--dbname", database, "--no-psqlrc", "--quiet", "--tuples-only", "--no-align"),
                *("--set", "ON_ERROR_STOP=1", "--command", statement),
            ]
        )
        return output.splitlines()

    def _run(self, command: Sequence[str]) -> str:
        done = subprocess.run(
            [_tool(command[0]), *command[1:]],
            capture_output=True,
            text=True,
            cwd=self._directory,
            check=False,
            **_as_user(),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(10)
            self._process = None

    def _answers(self) -> bool:
        command = [_tool("pg_isready"), "--quiet", "--host", str(self._directory)]
        return subprocess.run(command, check=False).returncode == 0


def database_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


@contextlib.contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A server of its own, gone afterwards. Its directory has a short name, as sockets need."""
    directory = Path(tempfile.mkdtemp(prefix="postgres-"))
    if _as_user():
        shutil.chown(directory, "postgres")
    server = None
    try:
        server = PostgresServer(directory)
        server.start()
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(directory)


def _as_user() -> dict[str, str]:
    """PostgreSQL refuses to run as root: the user that its package makes does it."""
    return {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}


def _tool(name: str) -> str:
    """Debian keeps the servers' own tools out of the PATH."""
    beside = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    path = str(beside[-1]) if beside else shutil.which(name)
    if path is None:
        raise RuntimeError(f"the tests need PostgreSQL: no {name} here")
    return path
