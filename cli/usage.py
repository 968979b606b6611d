"""`florilege usage`: requests and tokens by key, model, day, as the gateways have written them."""

import json
import time
from datetime import date
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from auth.calendar import day_of
from auth.store import KeyStore
from auth.usage.query import DIMENSIONS, Dimension, UsageQuery, UsageTotal
from auth.usage.store import UsageStore
from cli.console import complain
from cli.database import read, run
from cli.durations import parse_duration
from cli.options import with_settings
from cli.settings import Settings

_USAGE_ERROR = 2  # exit code


@with_settings(("database_url", "data_dir"))
def usage(
    settings: Settings,
    by: Annotated[
        str, typer.Option(help="Any of day, key, project, model, kind; by comma")
    ] = "key,model",
    since: Annotated[
        str, typer.Option(help="The first day (UTC), 2026-11-01, or how far back it is, 7d")
    ] = "30d",
    until: Annotated[str | None, typer.Option(help="The day after the last, 2026-12-01")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Show what was used: requests and tokens, up to the last seconds."""
    query = _query(by, since, until)
    totals, names = run(read(settings, lambda keys: _read(keys, settings.database, query)))
    rows = [_describe(total, query.by, names) for total in totals]
    if as_json:
        typer.echo(json.dumps(rows))
    else:
        Console().print(_table(rows, query.by))


def _query(by: str, since: str, until: str | None) -> UsageQuery:
    names = list(dict.fromkeys(name.strip() for name in by.split(",") if name.strip()))
    for name in names:
        if name not in DIMENSIONS:
            _refuse(f"--by {name}: any of {', '.join(DIMENSIONS)}")
    first, after = _first_day(since), None if until is None else _number(_day(until, "--until"))
    return UsageQuery(by=tuple(names), since=first, until=after)  # type: ignore[arg-type]


def _first_day(since: str) -> int:
    try:
        back_s = parse_duration(since)
    except ValueError:
        return _number(_day(since, "--since"))
    return day_of(max(0.0, time.time() - back_s))


def _day(text: str, flag: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        _refuse(f"{flag} {text}: a day, 2026-11-01, or for --since how far back, 7d")


def _number(day: date) -> int:
    return day.year * 10_000 + day.month * 100 + day.day


async def _read(
    keys: KeyStore, database: str, query: UsageQuery
) -> tuple[list[UsageTotal], dict[str, str]]:
    """The lines, and the names of the keys in them by key id."""
    await keys.check_schema()
    store = UsageStore(database)
    try:
        totals = await store.totals(query)
    finally:
        await store.close()
    named = await keys.list() if "key" in query.by else []
    return totals, {record.kid: record.name for record in named}


def _describe(
    total: UsageTotal, by: tuple[Dimension, ...], names: dict[str, str]
) -> dict[str, Any]:
    """What was asked for, and the counts. null: anonymous, or no project."""
    row: dict[str, Any] = {}
    for name in by:
        row[name] = getattr(total, name) or None
        if name == "day":
            row[name] = _iso(row[name])
        if name == "key":
            row["name"] = names.get(row[name])
    return row | {"requests": total.requests, "tokens": total.tokens}


def _iso(day: int) -> str:
    return f"{day // 10_000:04}-{day // 100 % 100:02}-{day % 100:02}"


def _table(rows: list[dict[str, Any]], by: tuple[Dimension, ...]) -> Table:
    table = Table(show_footer=len(rows) > 1)
    titles = [title for name in by for title in (["key", "name"] if name == "key" else [name])]
    for title in titles:
        table.add_column(title)
    for title in ("requests", "tokens"):
        total = sum(row[title] for row in rows)
        table.add_column(title, justify="right", footer=f"{total:,}")
    for row in rows:
        counts = [f"{row[name]:,}" for name in ("requests", "tokens")]
        # Text: a name in brackets is a name, not a style.
        table.add_row(*(Text(row[title] or "") for title in titles), *counts)
    return table


def _refuse(reason: str) -> NoReturn:
    complain(reason)
    raise typer.Exit(_USAGE_ERROR)
