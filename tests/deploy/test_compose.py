"""The compose file: valid, confined, and in agreement with the program."""

import re
import subprocess
import sys
from pathlib import Path

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
from compose_file import COMPOSE, FOLDER, OURS, PATH, SECRETS, SERVICES, own_variables
from dockerfile import Dockerfile

ROOT = Path(__file__).parents[2]
DOCKERFILE = Dockerfile(ROOT / "deploy" / "docker" / "Dockerfile")

each_service = pytest.mark.parametrize("name", SERVICES)
each_of_ours = pytest.mark.parametrize("name", OURS)


def _seconds(duration: str) -> float:
    return float(duration.removesuffix("s"))


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
    assert "@" not in own_variables(name).get("FLORILEGE_REDIS_URL", "")


@each_of_ours
def test_every_variable_is_a_setting(name: str) -> None:
    assert own_variables(name).keys() <= VARIABLES | SECRET_FILES


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
    for name in ("redis", "redis-exporter", "postgres", "worker", "worker-cpu", "migrate"):
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
        variables = own_variables(name)
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
        "redis-exporter": 9121,
    }
    assert ports.keys() <= SERVICES.keys()
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["prometheus"]["volumes"])
    assert content["rule_files"] == [f"{mounts['../prometheus/rules']}/*.yaml"]


def test_prometheus_keeps_exemplars() -> None:
    assert "--enable-feature=exemplar-storage" in SERVICES["prometheus"]["command"]


def test_gateway_starts_after_the_database_is_upgraded() -> None:
    assert SERVICES["migrate"]["command"] == ["db", "upgrade"]
    assert "migrate" in SERVICES["gateway"]["depends_on"]


def test_monitor_of_redis_reads_no_arguments_of_commands() -> None:
    """Those of slow ones hold token ids and vectors."""
    script = (FOLDER / "make-secrets").read_text()
    (rights,) = re.findall(r"'(\+ping .*latest)'", script)
    known = {"+ping", "+info", "+config|get", "+slowlog|len", "+latency|latest"}
    assert set(rights.split()) == known


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
