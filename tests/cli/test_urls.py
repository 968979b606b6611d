"""A password that was not percent-encoded is refused, and no piece of it is told."""

import json

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.urls import check_database_url, check_http_url, shown_database_url, shown_redis_url

OF_REDIS = [
    "redis://:pa/ssSECRET@host:6379/0",
    "redis://:12/ssSECRET@host:6379/0",
    "redis://:SECRET#x@host:6379/0",
    "redis://:12#SECRET@host:6379/0",
    "redis://user:SECR?ET@host:6379/0",
    "redis://user:12?SECRET@host:6379/0",
    "redis://:SEC℀RET@host:6379/0",
    "redis://:SEC[RET@host:6379/0",
    "redis://host:SECRET",
    "redis://:SECRET",
    "redis://host:6379/SECRET",
    "redis+sentinel://:SEC/RET@a:1,b:2/main/0",
    "redis+sentinel://a:1,b:SECRET/main/0",
    "redis+sentinel://:SECRET@a:1,b:2",
    "redis+sentinel://a:1/main/SECRET",
    "redis+sentinel://SECRET@a:1/0",
    "redis+sentinel://:SECRET@a:1,:SECRET@b:2/main",
    "redis+sentinel://a:1/main?password=SECRET",
    "redis://host/0?retry=SECRET",
    "REDIS://:SECRET@host/0",
    "unix://:SECRET@/run/redis@sock",
    "http://:SECRET@host",
    "SECRET",
]
OF_DATABASE = [
    "postgresql+asyncpg://me:p@SECRET@db/keys",
    "postgresql+asyncpg://me@db:SECRET/keys",
    "postgresql+asyncpg://me/SECRET@db/keys",
    "postgresql+asyncpg://me:SECRET",
    "SECRET",
]


def pieces_told(text: str) -> list[str]:
    return [piece for piece in ("SEC", "RET", "ET@", "pa/", "'pa'", "12") if piece in text]


@pytest.mark.parametrize("command", ["check-config", "gateway", "worker"])
@pytest.mark.parametrize("url", OF_REDIS)
def test_no_command_tells_a_piece_of_a_malformed_redis_url(command: str, url: str) -> None:
    result = CliRunner().invoke(app, [command, "--redis-url", url])
    assert result.exit_code == 2
    assert "--redis-url" in result.output
    assert result.output.count("\n") == 1
    assert not pieces_told(result.output)
    assert not pieces_told(shown_redis_url(url))


@pytest.mark.parametrize("url", OF_DATABASE)
def test_no_piece_of_a_malformed_database_url_is_told(url: str) -> None:
    result = CliRunner().invoke(app, ["check-config", "--database-url", url])
    assert result.exit_code == 2
    assert "--database-url" in result.output
    assert not pieces_told(result.output)
    assert not pieces_told(shown_database_url(url))


@pytest.mark.parametrize("character", list("/?#@:[]%\\ ℀"))
def test_password_that_a_url_cannot_hold_is_never_in_what_check_config_prints(
    character: str,
) -> None:
    for url in (f"redis://:SEC{character}RET@host:6379/0", f"redis://u:1{character}RET@host"):
        result = CliRunner().invoke(app, ["check-config", "--redis-url", url])
        assert "RET" not in result.output
        assert "SEC" not in result.output
    url = f"postgresql+asyncpg://me:SEC{character}RET@db/keys"
    result = CliRunner().invoke(app, ["check-config", "--database-url", url])
    assert "RET" not in result.output
    assert "SEC" not in result.output


def test_password_in_the_query_of_a_database_is_not_shown() -> None:
    url = "postgresql+asyncpg://me:SECRET@db/keys?password=SECRET"
    result = CliRunner().invoke(app, ["check-config", "--database-url", url])
    assert json.loads(result.output)["database_url"] == "postgresql+asyncpg://me:***@db/keys"


def test_file_of_keys_may_have_any_name() -> None:
    check_database_url("sqlite+aiosqlite:////home/me@work/keys.db")


@pytest.mark.parametrize(
    "url",
    [
        *("http://me:SECRET@host:4318", "http://SECRET@host", "ftp://SECRET", "SECRET", "http://"),
        *("http://host:SECRET", "http://host/?SECRET", "http://host/#SECRET", "http://host:0"),
    ],
)
def test_endpoint_of_traces_with_credentials_or_without_a_host_is_refused_untold(url: str) -> None:
    result = CliRunner().invoke(app, ["gateway", "--trace-endpoint", url])
    assert result.exit_code == 2
    assert "--trace-endpoint" in result.output
    assert "SECRET" not in result.output


@pytest.mark.parametrize("url", ["http://localhost:4318", "https://c.example/v1/traces"])
def test_endpoint_of_traces_is_a_url_of_http(url: str) -> None:
    check_http_url(url)
