"""The compose file: valid, confined, in agreement with the program; and its users of Redis work."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from app_settings import (
    DRAIN_S,
    GATEWAY_ADMIN_PORT,
    PORT,
    SECRET_FILES,
    VARIABLES,
    WORKER_ADMIN_PORT,
    commands,
)
from deployment import MODEL, SIMULATED
from dockerfile import Dockerfile
from redis_server import RedisServer, free_port, running_redis
from server_process import COMMAND, running

from auth.pepper import Peppers
from cli.settings import load_settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "compose"
PATH = FOLDER / "compose.yaml"
DOCKERFILE = Dockerfile(ROOT / "deploy" / "docker" / "Dockerfile")
SECRETS = "/run/secrets/"


def _read(text: str) -> dict[str, Any]:
    """With the defaults of its variables."""
    text = re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", text)
    content: dict[str, Any] = yaml.safe_load(text)
    return content


COMPOSE = _read(PATH.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if "build" in service]

each_service = pytest.mark.parametrize("name", SERVICES)
each_of_ours = pytest.mark.parametrize("name", OURS)


def _seconds(duration: str) -> float:
    return float(duration.removesuffix("s"))


def _own_variables(name: str) -> dict[str, str]:
    variables = SERVICES[name].get("environment", {})
    return {key: str(value) for key, value in variables.items() if key.startswith("FLORILEGE_")}


def test_compose_file_fits_the_compose_specification() -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    subprocess.run([checker, "--builtin-schema", "vendor.compose-spec", PATH], check=True)


@each_service
def test_service_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    limits = service["deploy"]["resources"]["limits"]
    assert limits.keys() == {"cpus", "memory"}


@each_service
def test_service_does_not_run_as_root(name: str) -> None:
    user = SERVICES[name].get("user")
    if user is None:
        assert name in OURS
        user = DOCKERFILE.last(SERVICES[name]["build"]["target"], "USER").text
    assert re.fullmatch(r"[1-9]\d*:\d+", user)


@each_service
def test_service_says_whether_it_is_healthy(name: str) -> None:
    check = SERVICES[name].get("healthcheck")
    once = SERVICES[name].get("restart") != "unless-stopped"
    if once:
        assert check == {"disable": True}
    elif name in OURS:
        assert check is None  # the image's own
    else:
        assert check["test"][0] in ("CMD", "CMD-SHELL")


@each_service
def test_service_waits_for_what_it_needs_to_be_healthy(name: str) -> None:
    for other, condition in SERVICES[name].get("depends_on", {}).items():
        once = SERVICES[other]["restart"] != "unless-stopped"
        expected = "service_completed_successfully" if once else "service_healthy"
        assert condition == {"condition": expected}


@each_service
def test_image_is_named_by_a_full_version_and_no_invented_digest(name: str) -> None:
    assert re.fullmatch(r"[\w/-]+:v?\d+\.\d+(\.\d+)?(-\w+)?", SERVICES[name]["image"])


@each_service
def test_no_secret_is_in_the_environment(name: str) -> None:
    for key, value in SERVICES[name].get("environment", {}).items():
        if re.search(r"PASSWORD|PEPPER|DATABASE|SECRET", key):
            assert str(value).startswith(SECRETS), key
            assert str(value).removeprefix(SECRETS) in SERVICES[name]["secrets"]
    for variable in ("FLORILEGE_REDIS_URL",):
        assert "@" not in SERVICES[name].get("environment", {}).get(variable, "")


@each_of_ours
def test_every_variable_is_a_setting(name: str) -> None:
    assert _own_variables(name).keys() <= VARIABLES | SECRET_FILES


@each_of_ours
def test_every_command_is_the_programs(name: str) -> None:
    service = SERVICES[name]
    if "entrypoint" in service:
        copied = f"deploy/docker/fetch_models.py /usr/local/bin/{service['entrypoint'][0]}"
        steps = DOCKERFILE.flat(service["build"]["target"])
        assert any(step.text.endswith(copied) for step in steps if step.word == "COPY")
    else:
        default = DOCKERFILE.last(service["build"]["target"], "CMD").json()
        assert " ".join(service.get("command", default)) in commands()


@each_of_ours
def test_service_is_built_from_a_stage_and_arguments_that_exist(name: str) -> None:
    build = SERVICES[name]["build"]
    assert (FOLDER / build["context"] / build["dockerfile"]).samefile(DOCKERFILE.path)
    assert build["target"] in DOCKERFILE.stages
    declared = {
        step.text.partition("=")[0]
        for stage in DOCKERFILE.stages.values()
        for step in stage.all("ARG")
    }
    assert build.get("args", {}).keys() <= declared


def test_published_ports_are_the_programs_and_reach_loopback_only() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published["gateway"] == [f"127.0.0.1:{PORT}:{PORT}"]  # never the admin port
    assert published.keys() == {"gateway", "prometheus", "grafana"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_stores_are_on_a_network_without_a_way_out() -> None:
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    for name in ("redis", "postgres", "worker", "worker-cpu", "migrate"):
        assert SERVICES[name]["networks"] == ["inside"]


def test_cpu_profile_needs_no_gpu() -> None:
    def starts(profile: str) -> set[str]:
        return {n for n, s in SERVICES.items() if profile in s.get("profiles", [profile])}

    assert "worker-cpu" in starts("cpu")
    assert "worker" in starts("gpu")
    for name in starts("cpu"):
        assert "reservations" not in SERVICES[name]["deploy"]["resources"]
    reserved = SERVICES["worker"]["deploy"]["resources"]["reservations"]
    assert reserved == {"devices": [{"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}]}


def test_processes_have_time_to_drain() -> None:
    assert _seconds(SERVICES["gateway"]["stop_grace_period"]) >= DRAIN_S + 15
    for name in ("worker", "worker-cpu"):
        assert _seconds(SERVICES[name]["stop_grace_period"]) >= DRAIN_S + 15


def test_worker_has_neither_keys_nor_database() -> None:
    for name in ("worker", "worker-cpu"):
        assert SERVICES[name]["secrets"] == ["redis_worker_password"]
        variables = _own_variables(name)
        assert not {"FLORILEGE_DATABASE_URL_FILE", "FLORILEGE_PEPPER_FILE"} & variables.keys()


def test_weights_are_read_only_but_for_the_service_that_fetches_them() -> None:
    for name in ("worker", "worker-cpu"):
        assert "models:/models:ro" in SERVICES[name]["volumes"]
    assert SERVICES["fetch"]["volumes"] == ["models:/models"]
    assert SERVICES["fetch"]["environment"]["HF_HUB_OFFLINE"] == "0"


def test_prometheus_scrapes_the_admin_ports_and_reads_the_rules() -> None:
    content = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    ports = {
        name: config["port"]
        for job in content["scrape_configs"]
        for config in job["dns_sd_configs"]
        for name in config["names"]
    }
    assert ports == {
        "gateway": GATEWAY_ADMIN_PORT,
        "worker": WORKER_ADMIN_PORT,
        "worker-cpu": WORKER_ADMIN_PORT,
    }
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["prometheus"]["volumes"])
    assert content["rule_files"] == [f"{mounts['../prometheus/rules']}/*.yaml"]


def test_grafana_is_provisioned_from_the_dashboards_of_the_repository() -> None:
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])
    folder = ROOT / "deploy" / "grafana" / "provisioning"
    providers = yaml.safe_load((folder / "dashboards" / "florilege.yaml").read_text())
    assert providers["providers"][0]["options"]["path"] == mounts["../grafana/dashboards"]
    sources = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text())
    assert sources["datasources"][0]["url"] == "http://prometheus:9090"
    interval = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())["global"]["scrape_interval"]
    assert sources["datasources"][0]["jsonData"]["timeInterval"] == interval


def test_every_mounted_file_is_in_the_repository() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (FOLDER / source).exists(), source


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
        key: value.replace(SECRETS, f"{secrets}/") for key, value in _own_variables(service).items()
    }
    return variables | ({"FLORILEGE_REDIS_URL": redis_url} if redis_url else {})
