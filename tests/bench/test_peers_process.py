"""Engines in processes of their own, and servers: driven, put to sleep, and named when they end."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from stub_embedder import StubEmbedder

from bench.client import Endpoint
from bench.gate import Reference
from bench.peers.contender import About, Size
from bench.peers.process import PeerFailed, PeerProcess, peer_process
from bench.peers.server import Served, ServerContender, peer_server

ABOUT = About("noisy", "float32", (Size(4), Size(8)))

NOISY_ENGINE = """
import numpy as np
from beside import WIDTH
LIBRARIES = ("numpy",)
print("printed while loading")

def load(model_dir, exports, dtype):
    def embed(texts, size):
        print("printed while embedding")
        if texts == ["die"]:
            raise SystemExit(3)
        return np.array([[len(text), size, len(texts)] for text in texts], np.float32)[:, :WIDTH]
    return embed
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("WIDTH = 3\n")
    script = tmp_path / "noisy.py"
    script.write_text(NOISY_ENGINE)
    return script


@pytest.fixture
async def noisy(script: Path, tmp_path: Path) -> AsyncIterator[PeerProcess]:
    async with peer_process(ABOUT, (sys.executable, script, tmp_path, tmp_path, "float32")) as peer:
        yield peer


async def test_engine_answers_whatever_it_prints(noisy: PeerProcess) -> None:
    assert noisy.about.versions == {"numpy": np.__version__}
    np.testing.assert_array_equal(await noisy.vectors(["a", "three"]), [[1, 4, 2], [5, 4, 2]])
    assert await noisy.embed_s(["a"] * 2_000, Size(8)) > 0


async def test_single_texts_are_timed_one_by_one(noisy: PeerProcess) -> None:
    times = await noisy.alone_s(["a", "b", "c"])
    assert len(times) == 3
    assert min(times) > 0


async def test_engine_that_ends_is_named(noisy: PeerProcess) -> None:
    with pytest.raises(PeerFailed, match="noisy ended with 3"):
        await noisy.embed_s(["die"], Size(4))


async def test_engine_that_never_loads_is_named(script: Path, tmp_path: Path) -> None:
    script.write_text("raise SystemExit(4)")
    with pytest.raises(PeerFailed, match="noisy ended with 4"):
        async with peer_process(ABOUT, (sys.executable, script, tmp_path, tmp_path, "float32")):
            pass


async def test_engine_sleeps_between_its_turns_and_then_goes_on(noisy: PeerProcess) -> None:
    await noisy.pause()
    await _until_state(noisy.pid, "T")
    await noisy.resume()
    assert await noisy.embed_s(["a"], Size(4)) > 0


async def _until_state(pid: int, state: str) -> None:
    async with asyncio.timeout(10):
        while Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != state:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("clients", [1, 4])
async def test_server_gives_the_corpus_back_in_order(
    stub: StubEmbedder, reference: Reference, clients: int
) -> None:
    about = About("stub", "float32", (Size(8, clients=clients),))
    async with ServerContender(about, Endpoint(stub.url), "stub") as contender:
        vectors = await contender.vectors(reference.texts)
        np.testing.assert_array_equal(vectors, reference.vectors)
        assert sorted(len(body["input"]) for body in stub.requests) == [1, 8, 8, 8]
        assert await contender.embed_s(reference.texts, Size(8)) > 0
        assert len(await contender.alone_s(reference.texts)) == len(reference.texts)


async def test_prompt_that_a_server_adds_itself_is_not_sent(stub: StubEmbedder) -> None:
    about = About("stub", "float32", (Size(8),))
    async with ServerContender(about, Endpoint(stub.url), "stub", prompt="query: ") as contender:
        await contender.vectors(["query: one", "two"])
    assert stub.texts == ["one", "two"]


STUB_SERVER = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        data = [{"index": i, "embedding": [1.0]} for i, _ in enumerate(body["input"])]
        answer = json.dumps({"data": data, "usage": {"prompt_tokens": 1}}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

print("pid", os.getpid(), file=sys.stderr)
HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


async def test_server_is_asked_once_it_answers_sleeps_and_ends(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(STUB_SERVER)
    served = Served((sys.executable, str(script), "{port}"), "stub")
    async with peer_server(ABOUT, served) as contender:
        assert contender.process is not None
        pid = contender.process.pid
        for _ in range(2):
            await contender.pause()
            await _until_state(pid, "T")
            await contender.resume()
            assert (await contender.vectors(["a", "b"])).shape == (2, 1)
        await contender.pause()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_server_that_ends_tells_what_it_wrote() -> None:
    served = Served((sys.executable, "-c", "raise SystemExit('no such model')"), "stub")
    with pytest.raises(PeerFailed, match=r"(?s)noisy does not answer.*no such model"):
        async with peer_server(ABOUT, served):
            pass
