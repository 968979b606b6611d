"""The images' recipe: what is in force at the end of each, and that it fits the program."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from app_settings import (
    EVERYWHERE,
    GATEWAY_ADMIN_PORT,
    PORT,
    SECRET_FILES,
    VARIABLES,
    WORKER_ADMIN_PORT,
)
from dockerfile import Dockerfile, assignments, expand

from cli.settings import load_settings

ROOT = Path(__file__).parents[2]
PATH = ROOT / "deploy" / "docker" / "Dockerfile"
DOCKERFILE = Dockerfile(PATH)
BASE = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
ADMIN_PORTS = {"gateway": GATEWAY_ADMIN_PORT, "worker": WORKER_ADMIN_PORT}

each_image = pytest.mark.parametrize("image", ADMIN_PORTS)


def test_linter_has_nothing_to_say() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    subprocess.run([hadolint, PATH], check=True)


@each_image
def test_image_runs_as_nobody_of_the_host(image: str) -> None:
    assert DOCKERFILE.last(image, "USER").text == "10001:10001"


@each_image
def test_image_is_stopped_by_a_signal_that_reaches_the_program(image: str) -> None:
    assert DOCKERFILE.last(image, "STOPSIGNAL").text == "SIGTERM"
    assert DOCKERFILE.last(image, "ENTRYPOINT").json() == ["florilege"]  # no shell in between
    assert DOCKERFILE.last(image, "CMD").json() == [image]


@each_image
def test_health_check_asks_the_admin_port(image: str) -> None:
    check = DOCKERFILE.last(image, "HEALTHCHECK").text
    assert f"http://127.0.0.1:{ADMIN_PORTS[image]}/health/live" in check


def test_exposed_ports_are_the_programs() -> None:
    assert DOCKERFILE.last("gateway", "EXPOSE").text == f"{PORT} {GATEWAY_ADMIN_PORT}"
    assert DOCKERFILE.last("worker", "EXPOSE").text == str(WORKER_ADMIN_PORT)


@each_image
def test_image_knows_only_variables_that_exist_and_uses_no_network(image: str) -> None:
    environment = DOCKERFILE.environment(image, BASE)
    own = {name: value for name, value in environment.items() if name.startswith("FLORILEGE_")}
    assert own.keys() <= VARIABLES | SECRET_FILES
    assert load_settings({}, own).admin_host == EVERYWHERE
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["PATH"].startswith("/opt/florilege/bin:/usr/local/bin")


def test_gateway_listens_beyond_its_container() -> None:
    assert DOCKERFILE.environment("gateway", BASE)["FLORILEGE_HOST"] == EVERYWHERE


@each_image
def test_image_is_labelled(image: str) -> None:
    labels = "".join(step.text for step in DOCKERFILE.flat(image) if step.word == "LABEL")
    for name in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{name}=" in labels
    assert 'image.licenses="Apache-2.0"' in labels


def test_version_of_the_label_is_the_programs() -> None:
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    arguments = [step.text for step in DOCKERFILE.flat("gateway") if step.word == "ARG"]
    assert f"VERSION={version[1]}" in arguments


def test_no_digest_is_invented() -> None:
    arguments = {k: v for step in DOCKERFILE.globals for k, v in _argument(step.text).items()}
    assert arguments["PYTHON_DIGEST"] == ""
    assert re.fullmatch(r"\d+\.\d+\.\d+-slim-\w+", arguments["PYTHON_TAG"])
    assert "@sha256" not in "\n".join(
        line for line in PATH.read_text().splitlines() if not line.startswith("#")
    )


@each_image
def test_final_image_has_no_source_and_only_a_finished_environment(image: str) -> None:
    copied = [step.text for step in DOCKERFILE.flat(image) if step.word == "COPY"]
    assert copied == [
        "--chmod=0555 deploy/docker/fetch_models.py /usr/local/bin/fetch-models",
        f"--from={image}-venv /opt/florilege /opt/florilege",
    ]


def test_every_extra_that_is_installed_exists() -> None:
    """pip only warns of one that does not."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    values = {"EXTRA": "gpu"}
    steps = [
        step.text for name in ("gateway-venv", "worker-venv") for step in DOCKERFILE.flat(name)
    ]
    named = re.findall(r"\.\[([^\]]+)\]", expand(" ".join(steps), values))
    assert named == ["postgres,otel", "gpu,otel"]
    assert {extra for names in named for extra in names.split(",")} | {"cpu"} <= known.keys()


def _argument(text: str) -> dict[str, str]:
    return assignments(text, {}) or {text: ""}
