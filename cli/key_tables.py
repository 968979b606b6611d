"""Keys as tables for people; a program asks for JSON."""

import time
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from api.admin.key_answer import state_of
from auth.record import KeyRecord, Limits

_WIDEST = 1_000_000  # characters a line


def print_keys(records: Sequence[KeyRecord]) -> None:
    """All of each but what `print_key` tells better."""
    table = Table()
    for name in ("id", "state", "expires", "used"):  # of a known width, and the id is to be copied
        table.add_column(name, no_wrap=True)
    for name in ("name", "project", "limits"):
        table.add_column(name, overflow="fold")
    for record in records:
        table.add_row(
            *(record.kid, state_of(record, time.time())),
            *(_day(record.expires_at), _day(record.last_used_at)),
            *(record.name, record.project or "", _limits(record.limits)),
        )
    _print(table)


def print_key(record: KeyRecord) -> None:
    rows = {
        "id": record.kid,
        "name": record.name,
        "state": state_of(record, time.time()),
        "owner": record.owner or "",
        "project": record.project or "",
        "environment": record.env,
        "scopes": ", ".join(sorted(record.scopes)),
        "models": _models(record),
        "lane": record.lane or "by size",
        "created": _moment(record.created_at),
        "expires": _moment(record.expires_at) or "never",
        "revoked": _moment(record.revoked_at),
        "last used": _moment(record.last_used_at) or "never",
        "replaces": record.replaces or "",
        "pepper": str(record.pv),
    }
    _print(_pairs(rows | _limit_rows(record.limits)))


def print_limits(limits: Limits) -> None:
    _print(_pairs(_limit_rows(limits)))


def _print(table: Table) -> None:
    # A name is a name, whatever it looks like.
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:  # another program has no width, and reads lines
        unbounded = console.options.update_width(_WIDEST)
        console.width = max(console.width, console.measure(table, options=unbounded).maximum)
    console.print(table)


def _pairs(rows: dict[str, str]) -> Table:
    table = Table(show_header=False)
    for name, value in rows.items():
        if value:
            table.add_row(name, value)
    return table


def _limit_rows(limits: Limits) -> dict[str, str]:
    return {
        name: "no limit" if value is None else f"{value:,}"
        for name, value in asdict(limits).items()
        if name != "burst_s"
    } | {"burst_s": "60" if limits.burst_s is None else f"{limits.burst_s:g}"}


def _limits(limits: Limits) -> str:
    given = {name: value for name, value in asdict(limits).items() if value is not None}
    return ", ".join(f"{name} {value:,}" for name, value in given.items()) or "none"


def _models(record: KeyRecord) -> str:
    return "all" if record.models is None else ", ".join(sorted(record.models))


def _day(at: int | None) -> str:
    return "" if at is None else time.strftime("%Y-%m-%d", time.gmtime(at))


def _moment(at: int | None) -> str:
    return "" if at is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
