"""The commands, in process."""

import json
import re

import pytest
from typer.testing import CliRunner

from cli.flags import ALL, GATEWAY, SERVE, WORKER
from cli.main import app
from cli.settings import Settings, flag_of, variable_of


def run(*arguments: str, **environ: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "300", **environ})
    return result.exit_code, result.stdout, result.stderr


def help_of(command: str) -> str:
    code, output, _ = run(command, "--help")
    assert code == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", output)


@pytest.mark.parametrize(
    ("command", "names"),
    [("serve", SERVE), ("gateway", GATEWAY), ("worker", WORKER), ("check-config", ALL)],
)
def test_help_names_every_flag_and_variable_of_a_command(
    command: str, names: tuple[str, ...]
) -> None:
    plain = help_of(command)
    for name in Settings.model_fields:
        assert (f"{flag_of(name)} " in plain or f"{flag_of(name)}/" in plain) == (name in names)
        assert (variable_of(name) + "]" in plain) == (name in names)


def test_every_setting_is_of_a_serving_command() -> None:
    assert {*SERVE, *GATEWAY, *WORKER} == set(Settings.model_fields)


def test_admin_port_of_a_worker_is_its_own() -> None:
    assert "[default: (8002)]" in help_of("worker")
    assert "[default: (8002)]" not in help_of("gateway") + help_of("serve")


def test_check_config_prints_what_is_in_force_without_secrets() -> None:
    code, output, _ = run(
        "check-config",
        *("--port", "0", "--no-auth", "--model", "a", "--model", "b", "--max-input-tokens", "9"),
        FLORILEGE_PEPPER="1:hunter2",
        FLORILEGE_DTYPE="float32",
    )
    values = json.loads(output)
    assert code == 0
    assert (values["port"], values["no_auth"], values["model"]) == (0, True, ["a", "b"])
    assert (values["dtype"], values["max_input_tokens"]) == ("float32", 9)
    assert "hunter2" not in output


def test_wrong_setting_is_one_line_and_a_usage_error() -> None:
    code, _, errors = run("check-config", FLORILEGE_PROT="1")
    assert code == 2
    assert errors.count("\n") == 1
    assert "FLORILEGE_PROT" in errors
