"""Usage is what was answered, and what a gateway that is killed held ends by itself."""

import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
from deployment import deployment
from key_ring import KeyRing, Used
from redis_server import running_redis
from server_process import florilege, running

WRITTEN, PENDING, OTHERS = 7, 5, 3  # requests
LEASE_S = 4.0
FLUSH_S = 10.0  # what is promised


def test_usage_at_the_command_line_is_what_was_answered_up_to_a_graceful_stop(
    tmp_path: Path,
) -> None:
    ring = KeyRing(tmp_path)
    free, limited = ring.make("free"), ring.make("limited", rpm=2)
    server = [sys.executable, "-m", "bench.simulated_server", "--port", "0", "--admin-port", "0"]
    answered = {free.kid: Used(0, 0), limited.kid: Used(0, 0)}
    with running([*server, "--data-dir", str(tmp_path)]) as process:
        for number in range(9):
            for made in (free, limited):
                answer = process.embed(made.key, "a text and " * (number % 3 + 1))
                if answer.status_code == 200:
                    requests, tokens = answered[made.kid]
                    used = answer.json()["usage"]["prompt_tokens"]
                    answered[made.kid] = Used(requests + 1, tokens + used)
        assert process.embed(free.key, "").status_code == 200  # two special tokens
        assert process.embed(free.key, "a", x_florilege_timeout_ms="none").status_code == 400
        assert process.stop() == 0
        assert answered[limited.kid].requests == 2
        requests, tokens = answered[free.kid]
        answered[free.kid] = Used(requests + 1, tokens + 2)
    rows = json.loads(florilege(tmp_path, "usage", "--by", "key", "--since", "2d", "--json"))
    told = {row["key"]: Used(row["requests"], row["tokens"]) for row in rows}
    assert told == answered
    assert {row["name"] for row in rows} == {"free", "limited"}


def test_a_killed_gateway_leaves_no_lease_and_loses_what_it_had_not_written_at_most(
    tmp_path: Path,
) -> None:
    ring = KeyRing(tmp_path)
    free, single = ring.make("free"), ring.make("single", max_concurrency=1)
    with running_redis() as redis, deployment(redis.url, tmp_path) as deployed:
        killed, other = deployed.gateway(), deployed.gateway()
        worker = deployed.simulated_worker()
        deployed.settle()
        for gateway in (killed, other):
            gateway.wait_for(lambda gateway=gateway: gateway.metric("florilege_live_workers") == 1)
        for _ in range(WRITTEN):
            assert killed.embed(free.key).status_code == 200
        written = Used(WRITTEN, 4 * WRITTEN)
        killed.wait_for(lambda: ring.used().get(free.kid) == written, FLUSH_S, every_s=0.2)
        for _ in range(PENDING):
            assert killed.embed(free.key).status_code == 200
        os.kill(worker.process.pid, signal.SIGSTOP)
        with ThreadPoolExecutor() as pool:
            timeout = {"x_florilege_timeout_ms": str(int(LEASE_S * 1000))}
            asking = pool.submit(killed.embed, single.key, **timeout)
            killed.wait_for(lambda: redis.call("KEYS", "florilege:lease:*"))
            leased_s = time.monotonic()
            killed.kill()
            assert isinstance(asking.exception(), httpx.HTTPError)
        refused = other.embed(single.key)
        assert (refused.status_code, refused.json()["error"]["code"]) == (
            429,
            "rate_limit_exceeded",
        )
        os.kill(worker.process.pid, signal.SIGCONT)
        other.wait_for(lambda: other.embed(single.key).status_code == 200, 2 * LEASE_S)
        print(f"\nthe lease of a killed gateway ended after {time.monotonic() - leased_s:.1f} s")
        for _ in range(OTHERS):
            assert other.embed(free.key).status_code == 200
        assert other.stop() == 0
    used = ring.used()
    assert used[single.kid] == Used(1, 4)
    missing = WRITTEN + PENDING + OTHERS - used[free.kid].requests
    print(f"of {PENDING} requests that it had not written {missing} are missing")
    assert 0 <= missing <= PENDING
    assert used[free.kid].tokens == 4 * used[free.kid].requests
