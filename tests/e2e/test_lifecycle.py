"""Start and stop: SIGTERM, refusals to start, keys."""

import json
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest
from openai import OpenAI
from server_process import COMMAND, ServerProcess, serving


def florilege(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *arguments, "--data-dir", str(data_dir)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def embed(server: ServerProcess, key: str | None, texts: list[str]) -> int:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    with server.client(headers=headers) as client:
        body = {"model": "all-MiniLM-L6-v2", "input": texts}
        return client.post("/v1/embeddings", json=body).status_code


def test_sigterm_finishes_what_was_accepted_and_exits_cleanly(tmp_path: Path) -> None:
    texts = [f"text {i} " + "long " * 200 for i in range(300)]
    with serving(tmp_path) as server, ThreadPoolExecutor(4) as pool:
        running = [pool.submit(embed, server, None, texts[:100]) for _ in range(4)]
        server.wait_for(lambda: server.metric("florilege_queue_tokens") > 10_000)
        assert server.stop() == 0
        assert [future.result() for future in running] == [200] * 4
    assert not list(tmp_path.iterdir())  # a server without keys leaves no files behind
    assert any(line["event"] == "open" for line in server.log)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104
def test_server_beyond_loopback_needs_a_key_or_no_auth(tmp_path: Path, host: str) -> None:
    with serving(tmp_path, "--host", host) as refused:
        assert refused.process.wait(30) == 78
        assert "keys create" in "".join(refused.stderr)


def test_server_beyond_loopback_serves_with_no_auth(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "0.0.0.0", "--no-auth", "--self-test", "off") as server:  # noqa: S104
        assert server.url
        assert server.stop() == 0


def test_once_a_key_exists_loopback_asks_for_it_too(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert embed(server, None, ["a"]) == 200
        made = florilege(tmp_path, "keys", "create", "--name", "first", "--json")
        key = json.loads(made.stdout)["key"]
        server.wait_for(lambda: embed(server, None, ["a"]) == 401, timeout_s=5)
        assert embed(server, key, ["a"]) == 200
        assert embed(server, key[:-1] + "x", ["a"]) == 401
        _check_sdk(server, key)
        kid = json.loads(made.stdout)["id"]
        assert florilege(tmp_path, "keys", "revoke", kid).returncode == 0
        server.wait_for(lambda: embed(server, key, ["a"]) == 401, timeout_s=5)
        assert key not in json.dumps(server.log) + "".join(server.stderr)
        secret = key.rsplit("-", 1)[1]
        assert secret not in json.dumps(server.log) + "".join(server.stderr)
    listed = florilege(tmp_path, "keys", "list", "--json").stdout
    assert secret not in listed
    assert json.loads(listed)[0]["state"] == "revoked"


def _check_sdk(server: ServerProcess, key: str) -> None:
    with OpenAI(base_url=f"{server.url}/v1", api_key=key) as sdk:
        assert sdk.models.list().data
    with (
        OpenAI(base_url=f"{server.url}/v1", api_key="sk-wrong") as sdk,
        pytest.raises(openai.AuthenticationError, match="Incorrect API key provided"),
    ):
        sdk.models.list()


def test_first_key_makes_a_pepper_that_only_its_owner_reads(tmp_path: Path) -> None:
    made = florilege(tmp_path, "keys", "create", "--name", "first")
    assert made.stdout.startswith("sk-live-")
    assert made.stdout.count("\n") == 1
    pepper = tmp_path / "pepper"
    assert stat.S_IMODE(pepper.stat().st_mode) == 0o600
    assert pepper.read_text().split(":")[1].strip() not in made.stdout + made.stderr


def test_keys_without_their_pepper_stop_the_start(tmp_path: Path) -> None:
    florilege(tmp_path, "keys", "create", "--name", "first")
    (tmp_path / "pepper").unlink()
    with serving(tmp_path) as server:
        assert server.process.wait(30) == 78
    assert florilege(tmp_path, "keys", "create", "--name", "second").returncode == 1


def test_start_failures_are_one_line_with_a_reason(tmp_path: Path) -> None:
    for flags, reason in [
        (["--model", "no/such-model"], "no/such-model"),
        (["--dtype", "float16"], "float16"),
        (["--device", "cuda"], "cuda"),
        (["--max-input-tokens", "4096"], "512"),
        (["--matryoshka", "typo=32"], "typo"),
        (["--model", "all-MiniLM-L6-v2", "--model", "all-MiniLM-L6-v2"], "two models"),
    ]:
        with serving(tmp_path, *flags) as server:
            assert server.process.wait(30) == 78, flags
        message = "".join(server.stderr)
        assert reason in message
        assert "Traceback" not in message
