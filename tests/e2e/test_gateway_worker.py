"""Gateways and workers of real processes at a private Redis: what a client sees of it."""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from deployment import MODEL, Deployment, deployment
from openai import OpenAI
from redis_server import RedisServer, free_port, running_redis
from reference.sharp import write_checkpoint
from server_process import COMMAND, ServerProcess

from checkpoint.find import DEFAULT_MODEL
from transport.redis.keys import model_keys

QUEUE = model_keys(DEFAULT_MODEL).queues[0]
WITHOUT_TORCH = (
    sys.executable,
    "-c",
    "import sys; sys.modules.update(torch=None, triton=None, safetensors=None)\n"
    "from cli.main import app; app()",
)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Two gateways, which cannot import torch, and two workers of the default model; one of them
    serves a reranker as well."""
    reranker = tmp_path_factory.mktemp("models") / "sharp-reranker"
    reranker.mkdir()
    write_checkpoint("bert-scores", reranker)
    config = tmp_path_factory.mktemp("config") / "models.toml"
    config.write_text('["sharp-reranker"]\naliases = ["judge"]\nmax_tokens = 32\n')
    with (
        running_redis() as redis,
        deployment(redis.url, tmp_path_factory.mktemp("data")) as deployed,
    ):
        flags = ["--dtype", "float32", "--model", MODEL]
        deployed.gateway(command=WITHOUT_TORCH)
        deployed.gateway("--model-config", str(config), command=WITHOUT_TORCH)
        deployed.worker(*flags)
        deployed.worker(*flags, "--model", str(reranker))
        deployed.settle()
        for process in deployed.processes:
            process.wait_for(lambda process=process: is_ready(process), timeout_s=15)
        for gateway in deployed.processes[:2]:
            gateway.wait_for(lambda gateway=gateway: gateway.metric("florilege_live_workers") == 3)
        yield deployed
        for process in deployed.processes:
            assert process.stop() == 0, "".join(process.stderr)
        assert left_behind(redis) == []


def is_ready(process: ServerProcess) -> bool:
    return httpx.get(f"{process.admin_url}/health/ready", timeout=10).status_code == 200


def left_behind(redis: RedisServer) -> list[str]:
    """Keys that would stay for ever, jobs, and streams of gateways that ended."""
    keys = redis.call("KEYS", "*").split()
    return [
        key
        for key in keys
        if redis.call("TTL", key) == "-1"
        or key.startswith("florilege:rep:")
        or (key.startswith("florilege:q:") and redis.call("XLEN", key) != "0")
    ]


def gateways(deployed: Deployment) -> list[ServerProcess]:
    return deployed.processes[:2]


def test_sdk_gets_the_same_vectors_from_every_gateway(deployed: Deployment) -> None:
    texts = [f"a text with the number {i}" for i in range(40)]
    found = []
    for gateway in gateways(deployed):
        with OpenAI(base_url=f"{gateway.url}/v1", api_key="unused", max_retries=0) as sdk:
            answer = sdk.embeddings.create(model=MODEL, input=texts)
        assert answer.usage.prompt_tokens > 40 * 7
        found.append(np.array([item.embedding for item in answer.data]))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found[0], axis=1), 1, atol=1e-5)


def test_shards_of_a_large_request_spread_over_the_workers(deployed: Deployment) -> None:
    before = [worker.metric("florilege_batch_size_sum") for worker in deployed.processes[2:]]
    texts = [f"{i} " + "word " * 100 for i in range(100)]
    with gateways(deployed)[0].client() as client:
        body = {"model": MODEL, "input": texts}
        assert client.post("/v1/embeddings", json=body).status_code == 200
    after = [worker.metric("florilege_batch_size_sum") for worker in deployed.processes[2:]]
    shares = [a - b for a, b in zip(after, before, strict=True)]
    assert sum(shares) == 100
    assert min(shares) >= 20


def test_one_worker_serves_several_models(deployed: Deployment) -> None:
    body = {"model": "sharp-reranker", "query": "a query", "documents": ["one text", "another"]}
    for gateway in gateways(deployed):
        with gateway.client() as client:
            answer = client.post("/v1/rerank", json=body)
            assert answer.status_code == 200
            assert len(answer.json()["results"]) == 2


def test_gateway_may_have_names_and_limits_of_its_own(deployed: Deployment) -> None:
    answers = []
    for gateway in gateways(deployed):
        with gateway.client() as client:
            answers.append(client.get("/v1/models/judge"))
    assert [answer.status_code for answer in answers] == [404, 200]
    model = answers[1].json()
    assert (model["id"], model["max_model_len"]) == ("sharp-reranker", 32)
    assert model["max_tokens_source"] == "--model-config"


def test_unknown_model_is_404_and_one_without_worker_503(tmp_path: Path) -> None:
    with running_redis() as redis, deployment(redis.url, tmp_path) as deployed:
        gateway = deployed.gateway(command=WITHOUT_TORCH)
        worker = deployed.simulated_worker()
        deployed.settle()
        gateway.wait_for(lambda: gateway.metric("florilege_live_workers") == 1)
        assert status(gateway, "none") == 404
        assert status(gateway, MODEL) == 200
        assert worker.stop() == 0
        gateway.wait_for(lambda: status(gateway, MODEL) == 503, timeout_s=4)
        assert status(gateway, "none") == 404
        gateway.wait_for(lambda: not is_ready(gateway), timeout_s=4)
        assert gateway.stop() == 0


def status(gateway: ServerProcess, model: str) -> int:
    """Of a request that waits a second for a worker that may just have left."""
    with gateway.client(headers={"x-florilege-timeout-ms": "1000"}) as client:
        answer = client.post("/v1/embeddings", json={"model": model, "input": "a text"})
    assert answer.status_code != 503 or int(answer.headers["retry-after"]) >= 1
    return answer.status_code


def test_redis_that_goes_and_comes_back_empty_is_told_by_readiness(tmp_path: Path) -> None:
    with running_redis() as redis, deployment(redis.url, tmp_path) as deployed:
        gateway, worker = deployed.gateway(), deployed.simulated_worker()
        deployed.settle()
        for process in (gateway, worker):
            process.wait_for(lambda process=process: is_ready(process))
        redis.kill()
        for process in (gateway, worker):
            process.wait_for(lambda process=process: not is_ready(process), timeout_s=12)
        assert status(gateway, MODEL) == 503
        assert httpx.get(f"{gateway.admin_url}/health/live").status_code == 200
        redis.start()
        for process in (gateway, worker):
            process.wait_for(lambda process=process: is_ready(process), timeout_s=12)
        assert status(gateway, MODEL) == 200


def test_request_whose_last_worker_was_killed_is_told_to_come_again(tmp_path: Path) -> None:
    """Long before its own deadline, and it leaves nothing."""
    with running_redis() as redis, deployment(redis.url, tmp_path) as deployed:
        gateway, worker = deployed.gateway(), deployed.simulated_worker("--step-s", "60")
        deployed.settle()
        gateway.wait_for(lambda: is_ready(gateway))
        with ThreadPoolExecutor() as pool, gateway.client() as client:
            body = {"model": MODEL, "input": "a text"}
            asking = pool.submit(client.post, "/v1/embeddings", json=body)
            gateway.wait_for(lambda: redis.call("XLEN", QUEUE) == "1")
            worker.kill()
            killed_s = time.monotonic()
            answer = asking.result()
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "model_not_ready"
        assert 5 <= int(answer.headers["retry-after"]) <= 7  # 5 s, spread by a quarter
        assert time.monotonic() - killed_s < 12  # 8 s without a heartbeat, and the looks for it
        assert gateway.stop() == 0
        assert left_behind(redis) == []


@pytest.mark.parametrize("command", ["gateway", "worker"])
def test_process_waits_for_a_redis_that_is_not_there_yet(tmp_path: Path, command: str) -> None:
    with deployment("redis://127.0.0.1:1/0", tmp_path) as deployed:
        process = getattr(deployed, "gateway" if command == "gateway" else "simulated_worker")()
        process.wait_for(lambda: any(e["event"] == "redis_unreachable" for e in process.log))
        started_s = time.monotonic()
        assert process.stop() == 0
        assert time.monotonic() - started_s < 5


@pytest.mark.parametrize("command", ["gateway", "worker"])
@pytest.mark.parametrize(
    ("options", "reason"),
    [(["--cluster-enabled", "yes"], "Cluster"), (["--requirepass", "hunter2"], "auth")],
)
def test_redis_that_will_never_do_stops_the_start(
    tmp_path: Path, command: str, options: list[str], reason: str
) -> None:
    port = 0
    if reason == "Cluster":  # needs two: by default its second is 10,000 above, which may be none
        port = free_port()
        options = [*options, "--cluster-port", str(free_port())]
    with running_redis(options, port) as redis, deployment(redis.url, tmp_path) as deployed:
        process = getattr(deployed, "gateway" if command == "gateway" else "simulated_worker")()
        assert process.process.wait(20) == 78
        message = "".join(process.stderr)
        assert reason.lower() in message.lower()
        assert "Traceback" not in message


@pytest.mark.parametrize("command", ["gateway", "worker"])
def test_no_redis_named_is_one_line_with_the_flag(tmp_path: Path, command: str) -> None:
    with deployment("", tmp_path) as deployed:
        del deployed.environ["FLORILEGE_REDIS_URL"]
        process = (
            deployed.gateway()
            if command == "gateway"
            else deployed.worker(command=(*COMMAND, "worker"))
        )
        assert process.process.wait(20) == 78
        assert "--redis-url" in "".join(process.stderr)
