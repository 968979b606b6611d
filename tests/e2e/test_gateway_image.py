"""The gateway's image, made by its recipe's steps in an empty environment."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from deployment import Deployment
from gateway_image import DOCKERFILE, Image
from redis_server import RedisServer, running_redis
from server_process import ServerProcess, running

ROOT = Path(__file__).parents[2]
MODEL = "all-MiniLM-L6-v2"

pytestmark = pytest.mark.timeout(300)  # pip fetches what a gateway needs


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def gateway(image: Image, redis: RedisServer) -> Iterator[ServerProcess]:
    """As the image starts it, with a key, on free ports."""
    command = image.command
    assert Path(command[0]).is_relative_to(image.root)
    image.run("florilege", "keys", "create", "--name", "first")
    environ = {**image.environment, "FLORILEGE_REDIS_URL": redis.url}
    flags = ["--port", "0", "--admin-port", "0"]
    with running([*command, *flags], environ) as server:
        assert server.process.poll() is None, server.stderr
        yield server


def test_gateway_image_has_neither_torch_nor_what_comes_with_it(image: Image) -> None:
    known = json.loads(image.run("pip", "list", "--format", "json").stdout)
    names = {package["name"].lower() for package in known}
    assert {"florilege", "asyncpg", "opentelemetry-sdk"} <= names
    assert not {name for name in names if re.match(r"torch|triton|safetensors|nvidia|cuda", name)}
    image.run("pip", "check")


def test_gateway_image_runs_what_it_was_built_with(image: Image) -> None:
    where = image.run("python", "-c", "import api, cli; print(api.__file__, cli.__file__)").stdout
    assert all(Path(path).is_relative_to(image.root / "opt") for path in where.split())


def test_gateway_image_is_made_of_pinned_versions_alone(image: Image) -> None:
    pins = set((ROOT / "constraints.txt").read_text().splitlines())
    pins = {pin.lower().replace("_", "-") for pin in pins}
    for package in json.loads(image.run("pip", "list", "--format", "json").stdout):
        name = package["name"].lower().replace("_", "-")
        if name not in ("florilege", "pip", "setuptools"):
            assert f"{name}=={package['version']}" in pins


def test_gateway_image_has_the_database_driver_for_several_gateways(image: Image) -> None:
    image.run("python", "-c", "import asyncpg")


def test_gateway_image_has_the_tokenizer_that_is_compiled(image: Image) -> None:
    asked = "from checkpoint.pieces import compiled; print(compiled())"
    found = image.run("python", "-c", asked).stdout.strip()
    assert found != "None" or shutil.which("g++") is None


def test_every_pin_has_a_wheel_for_the_python_of_the_image(image: Image, tmp_path: Path) -> None:
    """Here another Python runs. The source is not built anew: its dependencies are what counts."""
    tag = next(step.text for step in DOCKERFILE.globals if step.text.startswith("PYTHON_TAG="))
    version = re.match(r"PYTHON_TAG=(\d+\.\d+)", tag)
    assert version is not None
    code = "import importlib.metadata as m; print(*m.requires('florilege'), sep='\\n')"
    required = image.run("python", "-c", code).stdout.splitlines()
    of_gateway = [
        name.partition(";")[0]
        for name in required
        if "extra ==" not in name or re.search(r'extra == "(postgres|otel)"', name)
    ]
    platforms = [f"--platform=manylinux{name}_x86_64" for name in ("2014", "_2_17", "_2_28")]
    target = [f"--python-version={version[1]}", *platforms, f"--target={tmp_path}"]
    pins = ["--constraint", str(image.root / "src" / "constraints.txt")]
    flags = ["--quiet", "--dry-run", "--only-binary=:all:", "--no-cache-dir"]
    image.run("pip", "install", *flags, *target, *pins, *of_gateway)


def test_gateway_image_refuses_to_be_open_to_strangers(
    image: Image, redis: RedisServer, tmp_path: Path
) -> None:
    flags = ["--port", "0", "--admin-port", "0", "--data-dir", str(tmp_path)]
    ended = image.run("florilege", "gateway", "--redis-url", redis.url, *flags, check=False)
    assert ended.returncode == 78
    assert "florilege keys create" in ended.stderr


def test_gateway_image_boots_and_is_healthy_by_its_own_check(
    image: Image, gateway: ServerProcess
) -> None:
    port = str(httpx.URL(gateway.admin_url).port)
    check = DOCKERFILE.last("gateway", "HEALTHCHECK").text
    words = json.loads(check[check.index("[") :].replace(":8001/", f":{port}/"))
    image.run(*words)
    assert httpx.get(f"{gateway.url}/v1/models").status_code == 401
    assert gateway.stop() == 0


def test_gateway_image_embeds_by_a_worker_that_has_the_model(
    image: Image, gateway: ServerProcess, redis: RedisServer, tmp_path: Path
) -> None:
    created = image.run("florilege", "keys", "create", "--name", "caller", "--json")
    header = {"authorization": f"Bearer {json.loads(created.stdout)['key']}"}
    deployed = Deployment(redis.url, tmp_path)
    try:
        deployed.simulated_worker()
        deployed.settle()
        with gateway.client(headers=header) as client:
            # Both the key and the model are known within seconds.
            gateway.wait_for(lambda: client.get("/v1/models").json().get("data"))
            body = {"model": MODEL, "input": "a gathering of flowers"}
            answer = client.post("/v1/embeddings", json=body)
    finally:
        for process in deployed.processes:
            process.kill()
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["data"][0]["embedding"]) == 384
