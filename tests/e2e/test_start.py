"""What keeps a server from serving: a taken port, a stop while models load, a worker that fails."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from redis_server import free_port
from server_process import COMMAND, serving, start


@contextmanager
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(40)
        yield listening


@pytest.mark.parametrize("flag", ["--port", "--admin-port"])
def test_taken_port_fails_at_once_before_any_model_loads(tmp_path: Path, flag: str) -> None:
    with listener() as taken:
        port = taken.getsockname()[1]
        # A model that is nowhere: loading it would fail with another reason.
        with serving(tmp_path, "--model", "no/such-model", flag, str(port)) as server:
            assert server.process.wait(30) == 78
    message = "".join(server.stderr)
    assert f"cannot listen on 127.0.0.1:{port}" in message
    assert "Traceback" not in message


def test_who_is_ready_takes_connections(tmp_path: Path) -> None:
    public, admin = free_port(), free_port()
    flags = ("--port", str(public), "--admin-port", str(admin), "--data-dir", str(tmp_path))
    server = start([*COMMAND, "serve", *flags])
    try:
        with httpx.Client() as client:

            def ready() -> bool:
                with contextlib.suppress(httpx.TransportError):
                    answer = client.get(f"http://127.0.0.1:{admin}/health/ready")
                    return answer.status_code == 200
                return False

            server.wait_for(ready, every_s=0.001)
            assert client.get(f"http://127.0.0.1:{public}/v1/models").status_code == 200
    finally:
        server.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_does_not_wait_for_a_download_that_stalls(
    tmp_path: Path, number: signal.Signals
) -> None:
    with listener() as silent_hub:
        environment = {
            **{k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"},
            "HF_ENDPOINT": f"http://127.0.0.1:{silent_hub.getsockname()[1]}",
            "HF_HOME": str(tmp_path),
        }
        arguments = ["serve", "--model", "org/model", "--port", "0", "--admin-port", "0"]
        process = subprocess.Popen(
            [*COMMAND, *arguments, "--data-dir", str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        try:
            asked, _ = silent_hub.accept()
            with asked:
                assert asked.recv(65_536).startswith(b"GET ")
                started_s = time.monotonic()
                process.send_signal(number)
                stdout, stderr = process.communicate(timeout=30)
        finally:
            process.kill()
            process.communicate()
    assert process.returncode == 0
    assert time.monotonic() - started_s < 5
    assert "before it served" in stdout
    assert "Traceback" not in stderr


FAILING_WORKER = """
from worker.worker import Worker

async def run(self):
    raise LookupError("the text of a user")

Worker.run = run
from cli.main import app
app()
"""


def test_worker_that_fails_is_told_by_class_and_place_alone(tmp_path: Path) -> None:
    command = (sys.executable, "-c", FAILING_WORKER)
    with serving(tmp_path, "--self-test", "off", command=command) as server:
        assert server.process.wait(30) == 70
    (line,) = [line for line in server.log if line["event"] == "worker_failed"]
    assert (line["error"], line["line"]) == ("LookupError", 5)
    assert "the text of a user" not in str(server.log) + "".join(server.stderr)
