"""The commands, in process."""

import json
import re
from pathlib import Path

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


class TestKeys:
    @pytest.fixture
    def data_dir(self, tmp_path: Path) -> str:
        return str(tmp_path / "data")

    def test_key_is_shown_once_and_listed_without_its_secret(self, data_dir: str) -> None:
        code, key, note = run("keys", "create", "--name", "search", "--data-dir", data_dir)
        assert code == 0
        assert re.fullmatch(r"sk-live-[0-9a-f]{12}-[0-9A-Za-z]{49}\n", key)
        assert "not shown again" in note
        code, table, _ = run("keys", "list", "--data-dir", data_dir)
        assert code == 0
        assert "search" in table
        assert key.strip().rsplit("-", 1)[1] not in table

    def test_key_may_be_narrowed(self, data_dir: str) -> None:
        _, made, _ = run(
            *("keys", "create", "--name", "n", "--scope", "embed", "--model", "m"),
            *("--lane", "bulk", "--json", "--data-dir", data_dir),
        )
        _, listed, _ = run("keys", "list", "--json", "--data-dir", data_dir)
        (record,) = json.loads(listed)
        assert set(json.loads(made)) == {"id", "key", "name"}
        assert record["id"] == json.loads(made)["id"]
        assert (record["scopes"], record["models"], record["state"]) == (["embed"], ["m"], "active")
        assert record["lane"] == "bulk"

    @pytest.mark.parametrize(("flag", "reason"), [("--scope", "scopes"), ("--lane", "lane")])
    def test_what_no_key_can_have_is_refused(self, data_dir: str, flag: str, reason: str) -> None:
        code, output, errors = run(
            "keys", "create", "--name", "n", flag, "root", "--data-dir", data_dir
        )
        assert (code, output) == (1, "")
        assert reason in errors

    def test_revoked_key_is_shown_as_such(self, data_dir: str) -> None:
        _, made, _ = run("keys", "create", "--name", "n", "--json", "--data-dir", data_dir)
        kid = json.loads(made)["id"]
        assert run("keys", "revoke", kid, "--data-dir", data_dir)[0] == 0
        _, listed, _ = run("keys", "list", "--json", "--data-dir", data_dir)
        assert json.loads(listed)[0]["state"] == "revoked"
        assert run("keys", "revoke", "000000000000", "--data-dir", data_dir)[0] == 1

    def test_given_pepper_is_used_and_no_file_made(self, data_dir: str) -> None:
        pepper = "1:" + "A" * 44
        code, _, _ = run(
            "keys", "create", "--name", "n", "--data-dir", data_dir, FLORILEGE_PEPPER=pepper
        )
        assert code == 0
        assert not (Path(data_dir) / "pepper").exists()
        assert run("keys", "create", "--name", "o", "--data-dir", data_dir)[0] == 1
