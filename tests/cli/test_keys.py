"""`florilege keys`, in process, on SQLite and PostgreSQL."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer, running_postgres
from redis_server import RedisServer, running_redis
from typer.testing import CliRunner

from cli.main import app
from transport.redis.keys import NUDGE

ABSENT = "000000000000"


class Keys:
    """`florilege keys` on one database."""

    def __init__(self, *flags: str) -> None:
        self._flags = flags

    def run(self, command: str, *arguments: str, **environ: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(
            app,
            ["keys", command, *arguments, *self._flags],
            env={"COLUMNS": "300", **environ},
        )
        return result.exit_code, result.stdout, result.stderr

    def json(self, command: str, *arguments: str) -> Any:
        code, output, errors = self.run(command, *arguments, "--json")
        assert code == 0, errors
        return json.loads(output)

    def table(self, command: str, *arguments: str) -> dict[str, str]:
        """Of two columns, by the first."""
        code, output, errors = self.run(command, *arguments)
        assert code == 0, errors
        rows = [line.strip("│ ").split("│") for line in output.splitlines() if "│" in line]
        return {name.strip(): value.strip() for name, value in rows}


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def data_dir(tmp_path: Path) -> str:
    return str(tmp_path / "data")


@pytest.fixture(params=["sqlite", "postgresql"])
def keys(request: pytest.FixtureRequest, data_dir: str) -> Keys:
    if request.param == "sqlite":
        return Keys("--data-dir", data_dir)
    server: PostgresServer = request.getfixturevalue("postgres")
    return Keys("--data-dir", data_dir, "--database-url", server.make_database())


@pytest.fixture
def file_keys(data_dir: str) -> Keys:
    return Keys("--data-dir", data_dir)


def test_key_is_shown_once_and_listed_without_its_secret(keys: Keys) -> None:
    code, key, note = keys.run("create", "--name", "search")
    assert code == 0
    assert re.fullmatch(r"sk-live-[0-9a-f]{12}-[0-9A-Za-z]{49}\n", key)
    assert "not shown again" in note
    code, table, _ = keys.run("list")
    assert code == 0
    assert "search" in table
    assert key.strip().rsplit("-", 1)[1] not in table


def test_every_setting_of_a_key_can_be_given(keys: Keys) -> None:
    made = keys.json(
        *("create", "--name", "n", "--rpm", "60", "--tpm", "1000000", "--daily-tokens", "5"),
        *("--monthly-tokens", "6", "--concurrency", "4", "--burst-s", "1.5", "--project", "shop"),
        *("--owner", "ada@example.org", "--env", "test", "--lane", "bulk", "--scope", "embed"),
        *("--scope", "admin", "--model", "m", "--model", "l", "--expires", "30d"),
    )
    key = made.pop("key")
    assert key.startswith(f"sk-test-{made['id']}-")
    assert made == keys.json("show", made["id"]) == keys.json("list")[0]
    lifetime_s = made["expires_at"] - time.time()
    assert 30 * 86_400 - 60 < lifetime_s <= 30 * 86_400
    assert {name: made[name] for name in ("name", "owner", "project", "env", "lane")} == {
        "name": "n",
        "owner": "ada@example.org",
        "project": "shop",
        "env": "test",
        "lane": "bulk",
    }
    assert (made["scopes"], made["models"], made["state"]) == (
        ["admin", "embed"],
        ["l", "m"],
        "active",
    )
    assert made["limits"] == {
        "rpm": 60,
        "tpm": 1_000_000,
        "max_concurrency": 4,
        "burst_s": 1.5,
        "daily_tokens": 5,
        "monthly_tokens": 6,
    }


@pytest.mark.parametrize(
    ("flags", "code", "reason"),
    [
        (("--scope", "root"), 1, "scopes"),
        (("--lane", "root"), 1, "lane"),
        (("--env", "Live"), 1, "env"),
        (("--rpm", "-1"), 1, "rpm"),
        (("--tpm", "many"), 2, "a whole number, or none"),
        (("--burst-s", "long"), 2, "seconds, or none"),
        (("--burst-s", "nan"), 1, "burst_s"),
        (("--expires", "soon"), 2, "span of time"),
        (("--expires", "0d"), 1, "expires"),
        (("--expires", "99999999w"), 1, "expires"),
    ],
)
def test_what_no_key_can_have_is_refused(
    file_keys: Keys, flags: tuple[str, ...], code: int, reason: str
) -> None:
    refused, output, errors = file_keys.run("create", "--name", "n", *flags)
    assert (refused, output) == (code, "")
    assert reason in errors


def test_a_name_is_shown_as_it_is_written(file_keys: Keys) -> None:
    made = file_keys.json("create", "--name", "[red]a[/red] :smile:")
    assert file_keys.table("show", made["id"])["name"] == "[red]a[/red] :smile:"
    assert "[red]a[/red] :smile:" in file_keys.run("list")[1]


def test_one_key_is_shown_with_its_limits(file_keys: Keys) -> None:
    made = file_keys.json("create", "--name", "n", "--tpm", "1000000")
    shown = file_keys.table("show", made["id"])
    assert (shown["id"], shown["tpm"], shown["rpm"]) == (made["id"], "1,000,000", "no limit")
    assert (shown["expires"], shown["last used"]) == ("never", "never")
    assert file_keys.run("show", ABSENT)[0] == 1


def test_rotated_key_has_a_successor_and_a_day_to_live(keys: Keys) -> None:
    old = keys.json("create", "--name", "n", "--rpm", "60", "--env", "test")
    new = keys.json("rotate", old["id"])
    assert new["key"].startswith("sk-test-")
    assert new["key"] != old["key"]
    assert (new["replaces"], new["limits"]["rpm"]) == (old["id"], 60)
    left_s = keys.json("show", old["id"])["expires_at"] - time.time()
    assert 86_400 - 60 < left_s <= 86_400
    code, _, errors = keys.run("rotate", old["id"])
    assert code == 1
    assert new["id"] in errors


def test_rotated_key_lives_as_long_as_the_old_one_was_to_live_unless_told(keys: Keys) -> None:
    old = keys.json("create", "--name", "n", "--expires", "90d")
    new = keys.json("rotate", old["id"], "--grace", "1m")
    assert 90 * 86_400 - 60 < new["expires_at"] - time.time() <= 90 * 86_400
    newer = keys.json("rotate", new["id"], "--expires", "7d")
    assert 7 * 86_400 - 60 < newer["expires_at"] - time.time() <= 7 * 86_400
    code, _, errors = keys.run("rotate", newer["id"], "--expires", "0s")
    assert code == 1
    assert "expires" in errors


def test_list_shows_whole_ids_however_narrow_the_terminal(keys: Keys) -> None:
    made = keys.json(
        *("create", "--name", "a name of several words", "--project", "a-project-of-one-long-word"),
        *("--rpm", "600", "--tpm", "1000000", "--daily-tokens", "50000000", "--expires", "90d"),
    )
    for environ in ({"COLUMNS": "80", "FORCE_COLOR": "1"}, {"COLUMNS": "80"}):
        code, output, _ = keys.run("list", **environ)
        assert code == 0
        shown = re.sub(r"\x1b\[[0-9;]*m", "", output)
        assert made["id"] in shown
        assert "active" in shown
        assert "…" not in shown
        if "FORCE_COLOR" in environ:
            assert max(map(len, shown.splitlines())) <= 80
    # A pipe has no width: a line a key.
    (line,) = (line for line in output.splitlines() if made["id"] in line)
    assert "a name of several words" in line
    assert "a-project-of-one-long-word" in line
    assert "daily_tokens 50,000,000" in line


def test_rotation_without_grace_ends_the_old_key_at_once(keys: Keys) -> None:
    old = keys.json("create", "--name", "n")
    code, key, note = keys.run("rotate", old["id"], "--grace", "0s")
    assert code == 0
    assert key.startswith("sk-live-")
    assert "not shown again" in note
    assert keys.json("show", old["id"])["state"] == "expired"


def test_revoked_key_is_shown_as_such(keys: Keys) -> None:
    kid = keys.json("create", "--name", "n")["id"]
    code, said, _ = keys.run("revoke", kid)
    assert (code, said) == (0, f"Key {kid} (n) is revoked.\n")
    assert keys.json("revoke", kid)["state"] == "revoked"
    assert keys.json("list")[0]["state"] == "revoked"
    assert keys.run("revoke", ABSENT)[0] == 1


class TestLimits:
    def test_what_is_given_changes_and_the_rest_stays(self, keys: Keys) -> None:
        kid = keys.json("create", "--name", "n", "--rpm", "60", "--tpm", "9", "--concurrency", "4")[
            "id"
        ]
        changed = keys.json("limits", kid, "--rpm", "none", "--tpm", "0", "--daily-tokens", "7")
        assert changed["id"] == kid
        assert changed["limits"] == {
            "rpm": None,
            "tpm": None,
            "max_concurrency": 4,
            "burst_s": None,
            "daily_tokens": 7,
            "monthly_tokens": None,
        }
        assert keys.json("limits", kid) == changed
        assert keys.table("limits", kid)["daily_tokens"] == "7"

    def test_a_project_is_limited_as_a_key_is(self, keys: Keys) -> None:
        keys.json("create", "--name", "n", "--project", "shop")
        changed = keys.json("limits", "--project", "shop", "--rpm", "60")
        assert (changed["project"], changed["limits"]["rpm"]) == ("shop", 60)
        assert keys.json("limits", "--project", "shop") == changed

    @pytest.mark.parametrize("flags", [(), ("--rpm", "1")])
    def test_whom_nobody_knows_is_refused(self, keys: Keys, flags: tuple[str, ...]) -> None:
        keys.json("create", "--name", "n")
        for whose in ((ABSENT,), ("--project", "shop")):
            code, _, errors = keys.run("limits", *whose, *flags)
            assert code == 1
            assert whose[-1] in errors

    @pytest.mark.parametrize("whose", [(), (ABSENT, "--project", "shop")])
    def test_it_is_one_key_or_one_project(self, file_keys: Keys, whose: tuple[str, ...]) -> None:
        code, _, errors = file_keys.run("limits", *whose, "--rpm", "1")
        assert code == 2
        assert "not both" in errors


class TestPepper:
    def test_given_pepper_is_used_and_no_file_made(self, keys: Keys, data_dir: str) -> None:
        pepper = "1:" + "A" * 44
        code, _, _ = keys.run("create", "--name", "n", FLORILEGE_PEPPER=pepper)
        assert code == 0
        assert not (Path(data_dir) / "pepper").exists()
        assert keys.run("create", "--name", "o")[0] == 1

    def test_new_keys_are_made_with_the_newest(self, file_keys: Keys, data_dir: str) -> None:
        kid = file_keys.json("create", "--name", "n")["id"]
        with (Path(data_dir) / "pepper").open("a") as file:
            file.write("2:" + "A" * 44 + "\n")
        rotated = file_keys.json("rotate", kid)["id"]
        assert file_keys.table("show", kid)["pepper"] == "1"
        assert file_keys.table("show", rotated)["pepper"] == "2"


class TestNudge:
    def test_every_change_tells_the_gateways(self, file_keys: Keys, redis: RedisServer) -> None:
        seen = []

        def changed(*arguments: str) -> Any:
            value = file_keys.json(*arguments, "--redis-url", redis.url)
            seen.append(redis.call("XREVRANGE", NUDGE, "+", "-").splitlines()[0])
            return value

        kid = changed("create", "--name", "n", "--project", "shop")["id"]
        changed("limits", kid, "--rpm", "1")
        changed("limits", "--project", "shop", "--rpm", "1")
        kid = changed("rotate", kid)["id"]
        changed("revoke", kid)
        assert len(set(seen)) == len(seen) == 5
        assert redis.call("XLEN", NUDGE) == "1"
        assert 0 < int(redis.call("TTL", NUDGE)) <= 60

    def test_the_change_is_made_where_redis_is_away(self, file_keys: Keys, tmp_path: Path) -> None:
        away = RedisServer(tmp_path).url
        assert file_keys.json("create", "--name", "n", "--redis-url", away)["state"] == "active"

    def test_nothing_is_changed_where_redis_is_named_wrongly(
        self, file_keys: Keys, tmp_path: Path
    ) -> None:
        code, _, errors = file_keys.run(
            *("create", "--name", "n", "--redis-url", "rediss://localhost:1"),
            *("--redis-tls-ca-file", str(tmp_path / "absent.pem")),
        )
        assert code == 1
        assert "TLS" in errors
        assert file_keys.json("list") == []
