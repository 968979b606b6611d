"""The secrets of the compose file, and a request through its Redis with its users."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from compose_file import COMPOSE, SECRETS, SERVICES, own_variables
from deployment import MODEL, SIMULATED
from redis_server import RedisServer, free_port, running_redis
from server_process import COMMAND, running

from auth.pepper import Peppers
from cli.settings import load_settings

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As the script makes them, in a tree of its own."""
    root = tmp_path_factory.mktemp("tree")
    for path in ("deploy/compose/make-secrets", "docs/operations.md"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, root / path)
    subprocess.run([root / "deploy/compose/make-secrets"], check=True)
    return root / "deploy" / "compose" / "secrets"


@pytest.fixture(scope="module")
def redis(secrets: Path) -> Iterator[RedisServer]:
    """With the options of the service."""
    options = [word.replace(SECRETS, f"{secrets}/") for word in SERVICES["redis"]["command"][1:]]
    with running_redis(options, free_port()) as server:
        yield server


def test_script_makes_every_secret_and_keeps_what_is_there(secrets: Path) -> None:
    assert {path.name for path in secrets.iterdir()} == COMPOSE["secrets"].keys()
    assert secrets.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o444 for path in secrets.iterdir())
    before = {path.name: path.read_bytes() for path in secrets.iterdir()}
    subprocess.run([secrets.parent / "make-secrets"], check=True)
    assert before == {path.name: path.read_bytes() for path in secrets.iterdir()}


def test_secrets_are_what_the_program_takes(secrets: Path) -> None:
    settings = load_settings({}, _environment("gateway", secrets, ""))
    assert settings.pepper is not None
    assert Peppers.parse(settings.pepper.get_secret_value()).version == 1
    assert settings.database.startswith("postgresql+asyncpg://florilege:")
    password = (secrets / "postgres_password").read_text()
    assert f":{password}@postgres:5432/florilege" in settings.database


def test_redis_of_the_compose_file_is_healthy_and_closed_to_others(
    secrets: Path, redis: RedisServer
) -> None:
    kind, check = SERVICES["redis"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    check = check.replace("$$", "$").replace(SECRETS, f"{secrets}/")
    check = check.replace("redis-cli", f"redis-cli -s {redis.socket}")
    subprocess.run(["sh", "-ec", check], check=True)
    assert redis.call("PING").startswith("NOAUTH")


def test_monitor_of_redis_sees_figures_and_nothing_else(secrets: Path, redis: RedisServer) -> None:
    variables = SERVICES["redis-exporter"]["environment"]
    passwords = (secrets / variables["REDIS_PASSWORD_FILE"].removeprefix(SECRETS)).read_text()
    password = json.loads(passwords)[variables["REDIS_ADDR"]]
    user = ["--no-auth-warning", "--user", variables["REDIS_USER"], "--pass", password]
    assert "used_memory:" in redis.call(*user, "INFO", "memory")
    assert redis.call(*user, "GET", "florilege:models").startswith("NOPERM")


def test_request_goes_through_the_redis_of_the_compose_file(
    secrets: Path, redis: RedisServer, tmp_path: Path
) -> None:
    """Its users, passwords and variables; the keys' store aside."""
    workers = _environment("worker-cpu", secrets, redis.url)
    gateways = _environment("gateway", secrets, redis.url)
    for name in ("FLORILEGE_DATABASE_URL_FILE", "FLORILEGE_PEPPER_FILE"):
        del gateways[name]
    ports = ["--admin-port", "0"]
    flags = ["gateway", "--port", "0", "--data-dir", str(tmp_path), *ports]
    with (
        running([*SIMULATED, *ports], workers),
        running([*COMMAND, *flags], gateways) as gateway,
        gateway.client() as client,
    ):
        gateway.wait_for(lambda: client.get("/health/ready").status_code == 200)
        answer = client.post("/v1/embeddings", json={"model": MODEL, "input": "a flower"})
    assert answer.status_code == 200, answer.text


def _environment(service: str, secrets: Path, redis_url: str) -> dict[str, str]:
    """The service's variables on this machine."""
    variables = {
        key: value.replace(SECRETS, f"{secrets}/") for key, value in own_variables(service).items()
    }
    return variables | ({"FLORILEGE_REDIS_URL": redis_url} if redis_url else {})
