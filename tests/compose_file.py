"""The compose file, with the defaults of its variables."""

import re
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[1] / "deploy" / "compose"
PATH = FOLDER / "compose.yaml"
SECRETS = "/run/secrets/"

_TEXT = re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", PATH.read_text())
COMPOSE: dict[str, Any] = yaml.safe_load(_TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if "build" in service]


def own_variables(service: str) -> dict[str, str]:
    """The settings among its variables."""
    variables = SERVICES[service].get("environment", {})
    return {key: str(value) for key, value in variables.items() if key.startswith("FLORILEGE_")}
