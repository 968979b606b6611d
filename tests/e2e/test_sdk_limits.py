"""The OpenAI SDK at its limits: it waits as told, reads what it has left, and stops where told."""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import openai
import pytest
from deployment import MODEL
from key_ring import KeyRing
from openai import DefaultHttpxClient, OpenAI
from server_process import ServerProcess, running

# Its own waits begin with 0.5 s: what it is told here is longer.
SDK_WAITS_S = 0.5
SERVER = (sys.executable, "-m", "bench.simulated_server", "--port", "0", "--admin-port", "0")
QUEUE = "florilege_queue_tokens"
QUEUE_S, BATCH = 2.0, 128  # a batch takes 1.3 s
SLOW = ("--tokens-per-s", "100", "--max-batch-tokens", f"{BATCH}", "--max-queue-s", f"{QUEUE_S}")


@dataclass
class Server:
    process: ServerProcess
    ring: KeyRing


@contextmanager
def serving(data_dir: Path, *flags: str) -> Iterator[Server]:
    ring = KeyRing(data_dir)
    ring.make("first")  # keys are asked for from the start
    with running([*SERVER, "--data-dir", str(data_dir), *flags]) as process:
        yield Server(process, ring)
        assert process.stop() == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("data")) as server:
        yield server


@dataclass
class Exchange:
    """Requests of the SDK as they went over the wire."""

    sent_s: list[float] = field(default_factory=list)
    answers: list[httpx.Response] = field(default_factory=list)
    answered_s: list[float] = field(default_factory=list)

    @property
    def statuses(self) -> list[int]:
        return [answer.status_code for answer in self.answers]

    def check_waits(self) -> None:
        """Every retry came when the answer before it had said, and no sooner."""
        assert len(self.sent_s) > 1
        for answer, answered_s, sent_s in zip(
            self.answers, self.answered_s, self.sent_s[1:], strict=False
        ):
            told_s = int(answer.headers["retry-after-ms"]) / 1000
            assert told_s > SDK_WAITS_S
            assert int(answer.headers["retry-after"]) >= told_s
            assert sent_s - answered_s >= told_s

    def sent(self, _: httpx.Request) -> None:
        self.sent_s.append(time.monotonic())

    def answered(self, response: httpx.Response) -> None:
        self.answers.append(response)
        self.answered_s.append(time.monotonic())


@contextmanager
def sdk_of(server: Server, key: str) -> Iterator[tuple[OpenAI, Exchange]]:
    """As it comes, with its two retries."""
    exchange = Exchange()
    hooks = {"request": [exchange.sent], "response": [exchange.answered]}
    client = DefaultHttpxClient(event_hooks=hooks)
    with OpenAI(base_url=f"{server.process.url}/v1", api_key=key, http_client=client) as sdk:
        yield sdk, exchange


def make_key(server: Server, **limits: float | None) -> str:
    """That the server knows."""
    made = server.ring.make("limited", **limits)
    server.process.wait_for(lambda: knows(server, made.key))
    return made.key


def knows(server: Server, key: str) -> bool:
    with server.process.client(headers={"authorization": f"Bearer {key}"}) as client:
        return client.get("/v1/models").status_code == 200


def counted(server: Server) -> float:
    return server.process.metric("florilege_requests_total")


@pytest.mark.parametrize(
    ("limits", "what"),
    [({"rpm": 30, "burst_s": 2.0}, "requests"), ({"tpm": 30 * 4, "burst_s": 2.0}, "tokens")],
)
def test_a_rate_is_waited_for_as_told_and_then_answered(
    server: Server, limits: dict[str, float], what: str
) -> None:
    """One request of four tokens at a time, the next 2 s later."""
    key = make_key(server, **limits)
    before = counted(server)
    with sdk_of(server, key) as (sdk, exchange):
        for _ in range(2):
            assert sdk.embeddings.create(model=MODEL, input="a text").usage.total_tokens == 4
        assert exchange.statuses == [200, 429, 200]
        assert exchange.answers[1].json()["error"]["type"] == what
        assert "x-should-retry" not in exchange.answers[1].headers
        exchange.sent_s, exchange.answered_s = exchange.sent_s[1:], exchange.answered_s[1:]
        exchange.answers = exchange.answers[1:]
        exchange.check_waits()
    assert counted(server) - before == 3


def test_a_spent_budget_stops_it_at_once(server: Server) -> None:
    key = make_key(server, daily_tokens=4)
    before = counted(server)
    with sdk_of(server, key) as (sdk, exchange):
        assert sdk.embeddings.create(model=MODEL, input="a text").usage.total_tokens == 4
        with pytest.raises(openai.RateLimitError, match="exceeded the quota") as caught:
            sdk.embeddings.create(model=MODEL, input="a text")
    assert (caught.value.code, caught.value.type) == ("insufficient_quota", "insufficient_quota")
    assert exchange.statuses == [200, 429]
    assert "retry-after" not in exchange.answers[1].headers
    assert counted(server) - before == 2


def test_what_can_never_fit_stops_it_at_once(server: Server) -> None:
    key = make_key(server, tpm=8)
    before = counted(server)
    with sdk_of(server, key) as (sdk, exchange):
        with pytest.raises(openai.RateLimitError, match="can never fit") as caught:
            sdk.embeddings.create(model=MODEL, input="a text of many more words than eight tokens")
        # It has used nothing of the rate.
        assert sdk.embeddings.create(model=MODEL, input="six of the words").usage.total_tokens == 6
    assert caught.value.code == "rate_limit_exceeded"
    assert exchange.statuses == [429, 200]
    assert counted(server) - before == 2


def test_what_is_left_is_read_from_every_answer(server: Server) -> None:
    key = make_key(server, rpm=3, tpm=60)
    with sdk_of(server, key) as (sdk, _):
        left = []
        for _ in range(3):
            raw = sdk.embeddings.with_raw_response.create(model=MODEL, input="a text")
            assert raw.parse().usage.total_tokens == 4
            assert raw.headers["x-ratelimit-limit-requests"] == "3"
            assert raw.headers["x-ratelimit-limit-tokens"] == "60"
            left.append(
                [int(raw.headers[f"x-ratelimit-remaining-{u}"]) for u in ("requests", "tokens")]
            )
            assert raw.headers["x-ratelimit-reset-requests"].endswith("s")
            assert "x-ratelimit-reset" not in raw.headers
        with pytest.raises(openai.RateLimitError) as caught:
            sdk.with_options(max_retries=0).embeddings.create(model=MODEL, input="a text")
    requests, tokens = zip(*left, strict=True)
    assert requests == (2, 1, 0)
    # A token comes back each second.
    assert all(56 - 4 * n <= tokens[n] <= 59 for n in range(3))
    told = caught.value.response.headers
    assert told["x-ratelimit-remaining-requests"] == "0"
    assert 1 <= int(told["retry-after"]) <= 20


def test_a_full_queue_is_waited_for_as_told_and_then_answered(tmp_path: Path) -> None:
    text = "word " * (BATCH - 2)
    with serving(tmp_path, *SLOW) as server:
        key = make_key(server)
        assert server.process.embed(key, text).status_code == 200  # its speed is known now
        with ThreadPoolExecutor(5) as pool, sdk_of(server, key) as (sdk, exchange):
            waiting = [pool.submit(server.process.embed, key, text) for _ in range(5)]
            server.process.wait_for(lambda: server.process.metric(QUEUE) > 100 * QUEUE_S)
            before = counted(server)
            answer = sdk.embeddings.create(model=MODEL, input="a text")
            assert answer.usage.total_tokens == 4
            assert exchange.statuses[0] == 503
            assert exchange.answers[0].json()["error"]["code"] == "server_is_overloaded"
            assert exchange.statuses[-1] == 200
            exchange.check_waits()
            for future in waiting:
                assert future.result().status_code in (200, 503)
        assert counted(server) - before >= len(exchange.statuses)
