"""`florilege usage`, in process."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from auth.calendar import DAY_S, day_of
from auth.database import sqlite_url
from auth.pepper import Peppers
from auth.record import NewKey
from auth.store import KeyStore
from auth.usage.count import Batch, Count, Use
from auth.usage.store import UsageStore
from cli.usage import usage

app = typer.Typer()
app.command()(usage)

NOW = int(time.time())
TODAY = time.strftime("%Y-%m-%d", time.gmtime(NOW))


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    return result.exit_code, result.stdout, result.stderr


async def _fill(data_dir: Path) -> str:
    url = sqlite_url(data_dir / "florilege.db")
    store, usage_store = KeyStore(url), UsageStore(url)
    await store.migrate()
    _, record = await store.create(NewKey(name="[red]search", project="shop"), Peppers.generate())
    today, long_ago = day_of(NOW), day_of(NOW - 40 * DAY_S)
    counts = {
        Use(today, record.kid, "shop", "m", "embed"): Count(1_500, 2_000_000),
        Use(today, record.kid, "shop", "n", "rerank"): Count(2, 20),
        Use(today, "", "", "m", "embed"): Count(3, 30),
        Use(long_ago, record.kid, "shop", "m", "embed"): Count(4, 40),
    }
    await usage_store.add(Batch("a" * 32, 1, NOW, counts, {}))
    await store.close()
    await usage_store.close()
    return record.kid


@pytest.fixture
def kid(tmp_path: Path) -> str:
    return asyncio.run(_fill(tmp_path))


def rows(tmp_path: Path, *arguments: str) -> list[dict[str, Any]]:
    code, output, _ = run(*arguments, "--json", "--data-dir", str(tmp_path))
    assert code == 0
    found: list[dict[str, Any]] = json.loads(output)
    return found


def test_usage_is_told_by_key_and_model_of_the_last_30_days(tmp_path: Path, kid: str) -> None:
    search = {"key": kid, "name": "[red]search"}
    assert rows(tmp_path) == [
        {"key": None, "name": None, "model": "m", "requests": 3, "tokens": 30},
        {**search, "model": "m", "requests": 1_500, "tokens": 2_000_000},
        {**search, "model": "n", "requests": 2, "tokens": 20},
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--by", "project"), [{"project": None}, {"project": "shop"}]),
        (("--by", "kind, day"), [{"kind": k, "day": TODAY} for k in ("embed", "rerank")]),
        (("--by", "model", "--since", "60d"), [{"model": "m"}, {"model": "n"}]),
        (("--by", "", "--since", "0d"), [{}]),
        (("--by", "", "--since", TODAY), [{}]),
        (("--by", "", "--until", TODAY), []),
        (("--by", "day", "--since", "2999-01-01"), []),
    ],
)
def test_usage_may_be_grouped_and_bounded(
    tmp_path: Path,
    kid: str,
    arguments: tuple[str, ...],
    expected: list[dict[str, Any]],
) -> None:
    found = rows(tmp_path, *arguments)
    assert [
        {k: v for k, v in row.items() if k in ("project", "kind", "day", "model")} for row in found
    ] == expected


def test_days_before_the_first_do_not_count(tmp_path: Path, kid: str) -> None:
    assert [row["tokens"] for row in rows(tmp_path, "--by", "")] == [2_000_050]
    assert [row["tokens"] for row in rows(tmp_path, "--by", "", "--since", "40d")] == [2_000_090]


def test_table_shows_names_and_sums(tmp_path: Path, kid: str) -> None:
    code, output, _ = run("--data-dir", str(tmp_path))
    assert code == 0
    for shown in (kid, "[red]search", "2,000,000", "2,000,050", "1,505"):
        assert shown in output


def test_server_that_never_had_a_key_has_no_usage_and_gets_no_file(tmp_path: Path) -> None:
    assert rows(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [("--by", "user"), ("--since", "yesterday"), ("--since", "-1d"), ("--until", "7d")],
)
def test_what_cannot_be_asked_is_one_line_and_a_usage_error(
    tmp_path: Path, arguments: tuple[str, str]
) -> None:
    code, output, errors = run(*arguments, "--data-dir", str(tmp_path))
    assert (code, output) == (2, "")
    assert errors.count("\n") == 1
    assert arguments[0] in errors


def test_file_that_is_no_database_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "florilege.db").write_text("no database, and long enough to be read as one" * 100)
    code, output, errors = run("--data-dir", str(tmp_path))
    assert (code, output, errors.count("\n")) == (1, "", 1)
