"""What the program says of its ports, variables and commands: a deployment must agree with it."""

from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from cli.main import app
from cli.settings import SECRETS, Settings, variable_of

VARIABLES = {variable_of(name) for name in Settings.model_fields}
SECRET_FILES = {f"{variable_of(name)}_FILE" for name in SECRETS}


def commands() -> dict[str, Any]:
    """By name, of groups too: `gateway`, `db upgrade`."""
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", {})
        found |= {f"{name} {sub}": value for sub, value in inner.items()} or {name: command}
    return found


def shown_default(command: str, setting: str) -> str:
    """As the command's help shows it."""
    option = next(p for p in commands()[command].params if p.name == setting)
    return str(option.show_default)


PORT = int(shown_default("gateway", "port"))
GATEWAY_ADMIN_PORT = int(shown_default("gateway", "admin_port"))
WORKER_ADMIN_PORT = int(shown_default("worker", "admin_port"))
DRAIN_S = float(shown_default("gateway", "drain_s"))
EVERYWHERE = "0.0.0.0"  # noqa: S104 - all addresses of a container
