"""The gateway's image without a container engine: its recipe's steps in an empty environment."""

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from deployment import Deployment
from dockerfile import Dockerfile, assignments
from redis_server import RedisServer, running_redis
from server_process import ServerProcess, running

ROOT = Path(__file__).parents[2]
DOCKERFILE = Dockerfile(ROOT / "deploy" / "docker" / "Dockerfile")
STEPS_RUN_HERE = {"ARG", "ENV", "WORKDIR", "COPY", "RUN"}
MODEL = "all-MiniLM-L6-v2"

pytestmark = pytest.mark.timeout(300)  # pip fetches what a gateway needs


@dataclass(frozen=True)
class Image:
    """What a container would see below `root`."""

    root: Path

    def place(self, text: str) -> str:
        """A command or path of the image, on this machine."""
        return re.sub(r"(?<![\w./-])/(opt|src|var|models)\b", rf"{self.root}/\1", text)

    @property
    def environment(self) -> dict[str, str]:
        """Of the finished image. PYTHONPATH: nothing of the working tree."""
        variables = DOCKERFILE.environment("gateway", {"PATH": os.environ["PATH"]})
        return {name: self.place(value) for name, value in variables.items()} | {"PYTHONPATH": ""}

    def run(self, *words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        environment = {**_bare(), **self.environment}
        program = shutil.which(words[0], path=environment["PATH"])
        assert program is not None, words[0]
        return subprocess.run(
            [program, *words[1:]],
            check=check,
            capture_output=True,
            text=True,
            env=environment,
            cwd=self.root,
        )


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    built = Image(tmp_path_factory.mktemp("image"))
    values = {**_bare(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    directory = built.root
    for step in DOCKERFILE.flat("gateway-venv"):
        assert step.word in STEPS_RUN_HERE, step.word
        if step.word == "WORKDIR":
            directory = Path(built.place(step.text))
            directory.mkdir(parents=True)
        elif step.word == "ENV":
            values |= assignments(step.text, values)
        elif step.word == "COPY":
            assert step.text == ". ."
            _copy_context(directory)
        elif step.word == "RUN":
            command = ["sh", "-ec", built.place(step.text)]
            subprocess.run(command, check=True, cwd=directory, env=values)
    return built


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def gateway(image: Image, redis: RedisServer) -> Iterator[ServerProcess]:
    """As the image starts it, with a key, on free ports."""
    words = DOCKERFILE.last("gateway", "ENTRYPOINT").json()
    words += DOCKERFILE.last("gateway", "CMD").json()
    program = shutil.which(words[0], path=image.environment["PATH"])
    assert program is not None
    assert Path(program).is_relative_to(image.root)
    image.run("florilege", "keys", "create", "--name", "first")
    environ = {**image.environment, "FLORILEGE_REDIS_URL": redis.url}
    flags = ["--port", "0", "--admin-port", "0"]
    with running([program, *words[1:], *flags], environ) as server:
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


def _bare() -> dict[str, str]:
    """The environment of a step: this machine's way to packages, and nothing of ours."""
    ours = re.compile(r"FLORILEGE_|PYTHON|VIRTUAL_ENV|COV|HF_")
    return {name: value for name, value in os.environ.items() if not ours.match(name)}


def _copy_context(directory: Path) -> None:
    """What `.dockerignore` lets in."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line]
    lines = [line for line in lines if not line.startswith("#")]
    assert lines[0] == "*"
    left_out = [line for line in lines[1:] if not line.startswith("!")]

    def ignore(parent: str, names: list[str]) -> set[str]:
        inside = {name: str((Path(parent) / name).relative_to(ROOT)) for name in names}
        return {
            name
            for name, path in inside.items()
            if any(
                fnmatch.fnmatch(f"/{path}", f"*/{pattern.removeprefix('**/')}")
                for pattern in left_out
            )
        }

    for name in (line[1:] for line in lines if line.startswith("!")):
        source, target = ROOT / name, directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignore)
        else:
            shutil.copy2(source, target)
