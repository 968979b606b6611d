"""Peers: each at its best, in the same rounds, and none with wrong vectors."""

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from stub_embedder import StubEmbedder, Vectors

from bench.client import Client
from bench.gate import CheckFailed, Reference
from bench.peers import PEERS
from bench.peers.compare import Plan, compare
from bench.peers.process import Peer, PeerFailed, PeerProcess
from bench.peers.server import ServerContender
from bench.texts import Texts

PEERS_DIR = Path(sys.modules["bench.peers"].__path__[0])


class FakeContender:
    """Takes a known time, and writes each turn into a shared log."""

    def __init__(self, name: str, log: list[tuple[str, int, str]], rows: Vectors) -> None:
        self.name = name
        self.dtype = "float32"
        self.sizes: tuple[int, ...] = (4, 8, 16)
        self.versions = {"fake": "1"}
        self.seconds = {4: 2.0, 8: 1.0, 16: 4.0}
        self._log = log
        self._rows = rows

    async def embed_s(self, texts: list[str], size: int) -> float:
        self._log.append((self.name, size, texts[0]))
        return self.seconds[size]

    async def vectors(self, texts: list[str], size: int) -> NDArray[np.float32]:
        return self._rows


class Field:
    """Two contenders, one log."""

    def __init__(self, reference: Reference) -> None:
        self.log: list[tuple[str, int, str]] = []
        self.ours = FakeContender("ours", self.log, reference.vectors)
        self.peer = FakeContender("peer", self.log, reference.vectors)
        self.plan = Plan(Texts("t"), "seed", 8, reference, lambda _: None)


@pytest.fixture
def field(reference: Reference) -> Field:
    return Field(reference)


async def test_each_runs_at_its_best_size(field: Field) -> None:
    field.peer.seconds = {4: 5.0, 8: 4.0, 16: 3.0}
    comparison = await compare([field.ours], [field.peer], field.plan)
    assert [row.size for row in comparison.contenders] == [8, 16]
    assert comparison.contenders[0].swept == {4: 128.0, 8: 256.0, 16: 64.0}
    assert comparison.contenders[0].texts_per_s.median == 256.0


async def test_ratio_is_of_each_round(field: Field) -> None:
    times = iter([2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 8.0, 8.0])
    swept = 1 + 2 * len(field.peer.sizes)

    async def embed_s(texts: list[str], size: int) -> float:
        nonlocal swept
        swept -= 1
        return 1.0 if swept >= 0 else next(times)

    field.peer.embed_s = embed_s  # type: ignore[method-assign]
    (ratio,) = (await compare([field.ours], [field.peer], field.plan)).ratios
    assert (ratio.ours, ratio.peer) == ("ours (float32)", "peer (float32)")
    assert (ratio.ratio.min, ratio.ratio.median, ratio.ratio.max) == (2.0, 4.0, 8.0)


async def test_rounds_hold_each_once_on_the_same_texts_in_changing_order(field: Field) -> None:
    await compare([field.ours], [field.peer], field.plan)
    turns = field.log[-2 * field.plan.rounds :]
    rounds = list(zip(turns[::2], turns[1::2], strict=True))
    assert all({first[0], second[0]} == {"ours", "peer"} for first, second in rounds)
    assert all(first[2] == second[2] for first, second in rounds)
    assert {first[0] for first, _ in rounds} == {"ours", "peer"}
    assert len({first[2] for first, _ in rounds}) == len(rounds)


async def test_wrong_peer_is_refused_by_name_before_anything_is_timed(field: Field) -> None:
    field.peer._rows = np.roll(field.peer._rows, 1, axis=0)
    with pytest.raises(CheckFailed, match="peer: cosine"):
        await compare([field.ours], [field.peer], field.plan)
    assert field.log == []


@pytest.mark.parametrize("clients", [1, 4])
async def test_server_gives_the_corpus_back_in_order(
    stub: StubEmbedder, client: Client, reference: Reference, clients: int
) -> None:
    contender = ServerContender(client, clients, "float32")
    vectors = await contender.vectors(reference.texts, 8)
    np.testing.assert_array_equal(vectors, reference.vectors)
    assert [len(body["input"]) for body in stub.requests] == [8, 8, 8, 1]
    assert await contender.embed_s(reference.texts, 8) > 0


NOISY_PEER = """
import numpy as np
LIBRARIES = ("numpy",)
print("printed while loading")

def load(model_dir, dtype):
    def embed(texts, size):
        print("printed while embedding")
        if texts == ["die"]:
            raise SystemExit(3)
        return np.array([[len(text), size] for text in texts], np.float32)
    return embed
"""


@pytest.fixture
def noisy_peer(tmp_path: Path) -> Peer:
    script = tmp_path / "noisy.py"
    script.write_text(NOISY_PEER)
    return Peer("noisy", "float32", str(script))


async def test_peer_answers_whatever_it_prints(noisy_peer: Peer, tmp_path: Path) -> None:
    process = await PeerProcess.start(noisy_peer, Path(sys.executable), tmp_path)
    assert process.versions == {"numpy": np.__version__}
    vectors = await process.vectors(["a", "three"], 4)
    np.testing.assert_array_equal(vectors, [[1, 4], [5, 4]])
    assert await process.embed_s(["a"] * 2_000, 4) > 0
    await process.close()


async def test_peer_that_ends_is_named(noisy_peer: Peer, tmp_path: Path) -> None:
    process = await PeerProcess.start(noisy_peer, Path(sys.executable), tmp_path)
    with pytest.raises(PeerFailed, match="noisy ended with 3"):
        await process.embed_s(["die"], 4)
    await process.close()


def test_every_peer_has_its_script() -> None:
    assert all((PEERS_DIR / peer.script).exists() for peer in PEERS)
