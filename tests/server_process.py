"""Real `florilege` commands, each in a process of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
from told_secrets import check_no_key

COMMAND = (sys.executable, "-c", "from cli.main import app; app()")


@dataclass
class ServerProcess:
    process: subprocess.Popen[str]
    url: str = ""
    admin_url: str = ""
    log: list[dict[str, Any]] = field(default_factory=list)  # JSON lines of stdout
    stderr: list[str] = field(default_factory=list)
    readers: list[Thread] = field(default_factory=list)
    metrics: str = ""  # the last that it told when it was asked for all

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, **options)

    def embed(self, key: str, text: str = "a text", **headers: str) -> httpx.Response:
        """Two words are four tokens of the default model."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with self.client(headers={"authorization": f"Bearer {key}", **named}) as client:
            body = {"model": "all-MiniLM-L6-v2", "input": text}
            return client.post("/v1/embeddings", json=body)

    def said(self, event: str) -> bool:
        return any(line["event"] == event for line in self.log)

    def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        text = httpx.get(f"{self.admin_url}/metrics", timeout=10).text
        lines = [line for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def wait_for(
        self, done: Callable[[], object], timeout_s: float = 30, every_s: float = 0.01
    ) -> None:
        limit = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > limit:
                raise TimeoutError("".join(self.stderr))
            time.sleep(every_s)

    def wait_until_serving(self) -> None:
        """Or until it has ended."""
        self.wait_for(lambda: self.process.poll() is not None or _serving_line(self))
        line = _serving_line(self)
        if line is not None:  # a worker has no public port
            self.url, self.admin_url = line.get("url", ""), line["admin_url"]

    @property
    def output(self) -> str:
        """Whatever it has told so far, to anybody but its clients."""
        return "\n".join([*map(json.dumps, self.log), *self.stderr, self.metrics])

    def end(self) -> None:
        """Kill it, having asked a last time for its metrics where it still answers."""
        if self.admin_url and self.process.poll() is None:
            with contextlib.suppress(httpx.HTTPError):
                self.metrics = httpx.get(f"{self.admin_url}/metrics", timeout=2).text
        self.kill()

    def kill(self) -> None:
        """Raises `KeyTold` where it has told a key: in every test that starts a server."""
        self.process.kill()
        self.process.wait()
        for reader in self.readers:
            reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        check_no_key(self.output)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=40)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.log.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.stderr.extend(self.process.stderr)


def florilege(data_dir: Path, *arguments: str, **environ: str) -> str:
    """What a command prints that ends, and that must end well."""
    done = subprocess.run(
        [*COMMAND, *arguments, "--data-dir", str(data_dir)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environ},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def serving(
    data_dir: Path,
    *flags: str,
    command: Sequence[str] = COMMAND,
    environ: dict[str, str] | None = None,
) -> Iterator[ServerProcess]:
    """A `florilege serve` on free ports, its keys in `data_dir`."""
    arguments = ["serve", "--port", "0", "--admin-port", "0", "--data-dir", str(data_dir)]
    with running([*command, *arguments, *flags], environ) as server:
        yield server


@contextmanager
def running(
    arguments: Sequence[str], environ: dict[str, str] | None = None
) -> Iterator[ServerProcess]:
    """A process, once it serves or has ended; killed at the end if it still runs."""
    server = start(arguments, environ)
    try:
        server.wait_until_serving()
        yield server
    finally:
        server.end()


def start(arguments: Sequence[str], environ: dict[str, str] | None = None) -> ServerProcess:
    """A process that may not serve yet; to be killed by whoever started it."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", **(environ or {})}
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    server = ServerProcess(process)
    for read in (server._read, server._read_errors):
        reader = Thread(target=read)
        reader.start()
        server.readers.append(reader)
    return server


def _serving_line(server: ServerProcess) -> dict[str, Any] | None:
    return next((line for line in server.log if line["event"] == "serving"), None)
