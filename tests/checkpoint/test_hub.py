"""The hub's real client against a hub on loopback, in processes of their own: the client reads its
environment when it is imported."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b"{}",
    "1_Pooling/config.json": b"{}",
    "tokenizer.json": b"{}",
    "model.safetensors": b"weights",
    "2_Dense/model.safetensors": b"weights",
    "0_Transformer/model-00001-of-00002.safetensors": b"weights",
    "sparse_linear.safetensors": b"weights",
    "colbert_linear.safetensors": b"weights",
    "consolidated.safetensors": b"the same weights again",
    "pytorch_model.bin": b"pickle",
    "2_Dense/pytorch_model.bin": b"pickle",
    "onnx/model.onnx": b"onnx",
    "onnx/config.json": b"{}",
    "modeling_tiny.py": b"raise SystemExit",
    "README.md": b"",
}
TAKEN = {name for name in FILES if name.endswith((".json", ".safetensors"))} - {
    "onnx/config.json",
    "consolidated.safetensors",
}


class FakeHub(ThreadingHTTPServer):
    """One public model, org/tiny, and one behind terms, org/gated."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HubAnswers)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class HubAnswers(BaseHTTPRequestHandler):
    server: FakeHub

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(path)
        name = path.partition(f"/resolve/{COMMIT}/")[2]
        if path.startswith("/api/models/org/tiny/revision/"):
            self._send(200, json.dumps({"id": "org/tiny", "sha": COMMIT}).encode(), with_body)
        elif path.startswith("/api/models/org/tiny/tree/"):
            self._send(200, json.dumps([_tree_entry(n) for n in FILES]).encode(), with_body)
        elif name in FILES:
            self._send(200, FILES[name], with_body)
        elif "org/gated" in path:
            self._send(403, b"{}", with_body, error="GatedRepo")
        else:
            self._send(404, b"{}", with_body, error="RepoNotFound")

    def _send(self, status: int, body: bytes, with_body: bool, error: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.send_header("ETag", f'"{sha1(body, usedforsecurity=False).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        if error:
            self.send_header("X-Error-Code", error)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Tests are quiet."""


def _tree_entry(name: str) -> dict[str, Any]:
    body = FILES[name]
    oid = sha1(body, usedforsecurity=False).hexdigest()
    return {"type": "file", "path": name, "size": len(body), "oid": oid}


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def find_in_process(name: str, home: Path, endpoint: str, **environment: str) -> tuple[str, str]:
    """(what find_model found, or what it said)."""
    program = (
        "import sys\n"
        "from checkpoint.errors import CheckpointNotFound\n"
        "from checkpoint.find import find_model\n"
        "try: print(*(lambda f: (f.id, f.revision, f.directory))(find_model(sys.argv[1])))\n"
        "except CheckpointNotFound as error: print(error, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, name],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "HF_HOME": str(home),
            "HF_ENDPOINT": endpoint,
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stdout.strip(), done.stderr.strip()


def test_only_safetensors_and_json_are_downloaded_and_found_again_offline(
    hub: FakeHub, tmp_path: Path
) -> None:
    found, _ = find_in_process("org/tiny", tmp_path, hub.url)
    model_id, revision, directory = found.split(" ")
    assert (model_id, revision) == ("org/tiny", COMMIT)
    on_disk = {str(p.relative_to(directory)) for p in Path(directory).rglob("*") if p.is_file()}
    assert on_disk == TAKEN

    hub.asked.clear()
    offline, _ = find_in_process("org/tiny", tmp_path, hub.url, HF_HUB_OFFLINE="1")
    assert offline == found
    assert hub.asked == []


def test_offline_and_not_cached_says_how_to_get_it(hub: FakeHub, tmp_path: Path) -> None:
    found, error = find_in_process("org/tiny", tmp_path, hub.url, HF_HUB_OFFLINE="1")
    assert found == ""
    assert "HF_HUB_OFFLINE" in error
    assert "hf download org/tiny" in error
    assert hub.asked == []


@pytest.mark.parametrize(
    ("name", "advice"),
    [("org/none", "no such model, or it is private"), ("org/gated", "terms accepted")],
)
def test_hub_that_refuses_says_why(hub: FakeHub, tmp_path: Path, name: str, advice: str) -> None:
    found, error = find_in_process(name, tmp_path, hub.url)
    assert found == ""
    assert advice in error
    assert "Traceback" not in error


def test_hub_out_of_reach_says_what_to_check(tmp_path: Path) -> None:
    with FakeHub() as closed:
        url = closed.url
    found, error = find_in_process("org/tiny", tmp_path, url)
    assert found == ""
    assert "cannot be reached" in error
    assert "HF_ENDPOINT" in error
