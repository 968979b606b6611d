"""Many clients at once: every answer belongs to its own text, nothing is lost, overload is told."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator

import aiohttp
import numpy as np
import pytest
from numpy.typing import NDArray
from server_process import ServerProcess, serving

MODEL = "all-MiniLM-L6-v2"
CLIENTS = 64
WORDS = ("river", "stone", "cloud", "bread", "music", "train", "paper", "light", "garden")
POOL = 2_048  # unique texts; a request holds up to 64 of them

Vectors = NDArray[np.float32]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with all its defaults."""
    with serving(tmp_path_factory.mktemp("data")) as server:
        yield server
        assert server.stop() == 0


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Unique texts of 4 to 40 tokens: each begins with its own number."""
    random_ = random.Random(7)  # noqa: S311
    return [
        " ".join([str(i), *random_.choices(WORDS, k=random_.randint(1, 36))]) for i in range(POOL)
    ]


class Checker:
    """Holds each answer against the vector its text got alone, before the load."""

    def __init__(self, reference: Vectors) -> None:
        self._reference = reference
        self.statuses: Counter[int] = Counter()
        self.wrong = 0
        self.without_retry_after = 0

    def check(self, indices: list[int], status: int, rows: Vectors | None, retry: bool) -> None:
        self.statuses[status] += 1
        if rows is None:
            self.without_retry_after += not retry
            return
        # bfloat16 moves a vector by up to 5e-4; another text of the pool is much further away.
        cosines = np.einsum("nd,nd->n", rows, self._reference[indices])
        self.wrong += len(rows) != len(indices) or bool((cosines < 0.999).any())


async def reference_of(url: str, texts: list[str]) -> Vectors:
    async with aiohttp.ClientSession(url) as session:
        parts = [await embed(session, texts[i : i + 64]) for i in range(0, len(texts), 64)]
    return np.concatenate([rows for _, rows, _ in parts if rows is not None])


async def embed(
    session: aiohttp.ClientSession, texts: list[str]
) -> tuple[int, Vectors | None, bool]:
    async with session.post("/v1/embeddings", json={"model": MODEL, "input": texts}) as response:
        body = await response.json()
        if response.status != 200:
            return response.status, None, "retry-after" in response.headers
        rows = [item["embedding"] for item in body["data"]]
        return response.status, np.array(rows, np.float32), False


async def drive(
    server: ServerProcess, texts: list[str], checker: Checker, clients: int, seconds: float
) -> None:
    end_s = time.monotonic() + seconds
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(server.url, connector=connector, timeout=timeout) as session:

        async def client(number: int) -> None:
            random_ = random.Random(number)  # noqa: S311
            while time.monotonic() < end_s:
                indices = random_.sample(range(POOL), random_.randint(1, 64))
                status, rows, retry = await embed(session, [texts[i] for i in indices])
                checker.check(indices, status, rows, retry)

        await asyncio.gather(*(client(i) for i in range(clients)))


@pytest.mark.timeout(240)
async def test_answers_belong_to_their_texts_under_load_and_beyond(
    loaded: ServerProcess, texts: list[str], load_seconds: float
) -> None:
    reference = await reference_of(loaded.url, texts)
    nearest = reference @ reference.T - 2 * np.eye(POOL, dtype=np.float32)
    assert nearest.max() < 0.9985  # so that the vector of another text is told from noise

    at_capacity = Checker(reference)
    await drive(loaded, texts, at_capacity, CLIENTS, load_seconds)
    assert set(at_capacity.statuses) == {200}
    assert at_capacity.wrong == 0

    beyond = Checker(reference)
    await drive(loaded, texts, beyond, 4 * CLIENTS, load_seconds)
    assert set(beyond.statuses) <= {200, 503}
    assert beyond.statuses[200] > 0
    assert (beyond.wrong, beyond.without_retry_after) == (0, 0)

    # Nothing is left over: no request in flight, no job in the queue, no job that was given up.
    assert loaded.metric("florilege_inflight") == 0
    loaded.wait_for(lambda: loaded.metric("florilege_queue_depth") == 0)
    assert loaded.metric("florilege_queue_tokens") == 0
    assert loaded.metric("florilege_expired_total") == 0


async def test_swapped_and_missing_answers_would_be_noticed(texts: list[str]) -> None:
    rows = np.eye(4, dtype=np.float32)
    checker = Checker(rows)
    checker.check([0, 1], 200, rows[[0, 1]], False)
    assert checker.wrong == 0
    checker.check([0, 1], 200, rows[[1, 0]], False)
    assert checker.wrong == 1
    checker.check([0], 503, None, False)
    assert checker.without_retry_after == 1
