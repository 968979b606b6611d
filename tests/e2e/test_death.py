"""The engine's death, both ways: its requests are answered, readiness falls, the process ends."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from server_process import ServerProcess, serving

DYING = Path(__file__).with_name("dying_server.py")
WATCHDOG_S = 1.0


def embed(server: ServerProcess, text: str) -> httpx.Response:
    with server.client() as client:
        return client.post("/v1/embeddings", json={"model": "all-MiniLM-L6-v2", "input": text})


def readiness(server: ServerProcess) -> int:
    """503 once it fell; 0 when nobody answers any more."""
    try:
        return httpx.get(f"{server.admin_url}/health/ready", timeout=5).status_code
    except httpx.HTTPError:
        return 0


@pytest.mark.parametrize("how", ["exit", "block"])
def test_dead_engine_answers_its_requests_and_ends_the_process(tmp_path: Path, how: str) -> None:
    command = (sys.executable, str(DYING), how)
    with serving(tmp_path, "--watchdog-s", str(WATCHDOG_S), command=command) as server:
        assert embed(server, "a healthy text").status_code == 200
        with ThreadPoolExecutor(8) as pool:
            started_s = time.monotonic()
            deadly = pool.submit(embed, server, "poison")
            server.wait_for(lambda: server.metric("florilege_inflight") == 1 or deadly.done())
            behind = [pool.submit(embed, server, f"behind it {i}") for i in range(4)]
            statuses = []
            while server.process.poll() is None:
                statuses.append(readiness(server))
            answers = [future.result() for future in (deadly, *behind) if not _refused(future)]
        elapsed_s = time.monotonic() - started_s
    assert server.process.returncode == 70
    assert answers[0].status_code == 500
    for answer in answers:
        assert answer.json()["error"]["code"] == "engine_failed"
    if how == "block":
        assert len(answers) == 5  # all were accepted before the watchdog barked
        assert 503 in statuses or 0 in statuses
    # Told within a second of the death, which a blocked step reveals after the watchdog's time.
    slack_s = 2.5  # of process and polling on a busy machine, beside the second itself
    assert elapsed_s < (WATCHDOG_S if how == "block" else 0) + 1.0 + slack_s


def _refused(future: object) -> bool:
    """A request that came after the death may have found the door closed."""
    error = future.exception()  # type: ignore[attr-defined]
    return isinstance(error, httpx.TransportError)
