"""`florilege db`: the schema is made and upgraded on request, and nothing else does it."""

import asyncio
from pathlib import Path

import pytest
from postgres_server import running_postgres
from raw_sql import execute
from typer.testing import CliRunner

from auth.database import sqlite_url
from auth.migrate import HEAD
from cli.main import app


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "300"})
    return result.exit_code, result.stderr


def test_a_new_database_is_made_and_once_more_changes_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        code, said = run("db", "upgrade", "--data-dir", str(tmp_path))
        assert (code, said) == (0, f"The database is at revision {HEAD}.\n")
    assert (tmp_path / "florilege.db").exists()


def test_a_server_of_postgresql_is_made_ready_for_keys() -> None:
    with running_postgres() as server:
        url = server.make_database()
        assert run("keys", "list", "--database-url", url)[0] == 1
        assert run("db", "upgrade", "--database-url", url)[0] == 0
        assert run("keys", "list", "--database-url", url)[0] == 0


@pytest.mark.parametrize(
    ("revision", "command", "reason"),
    [
        ("0001", ("keys", "create", "--name", "n"), "florilege db upgrade"),
        ("0001", ("keys", "list"), "florilege db upgrade"),
        ("0001", ("keys", "revoke", "0123456789ab"), "florilege db upgrade"),
        ("9999", ("keys", "create", "--name", "n"), "this version knows"),
        ("9999", ("db", "upgrade"), "this version knows"),
    ],
)
def test_a_schema_of_another_version_is_left_alone(
    tmp_path: Path, revision: str, command: tuple[str, ...], reason: str
) -> None:
    run("db", "upgrade", "--data-dir", str(tmp_path))
    url = sqlite_url(tmp_path / "florilege.db")
    asyncio.run(execute(url, "UPDATE alembic_version SET version_num = :to", to=revision))
    code, said = run(*command, "--data-dir", str(tmp_path))
    assert code == 1
    assert reason in said
    assert asyncio.run(execute(url, "SELECT version_num FROM alembic_version")) == [(revision,)]


def test_a_database_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    code, said = run("db", "upgrade", "--database-url", f"postgresql:///keys?host={tmp_path}")
    assert code == 1
    assert said.count("\n") == 1
