"""`florilege keys`: make, list and revoke API keys."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Annotated, Any, TypeVar, cast

import typer
from rich.console import Console
from rich.table import Table

from auth.errors import AuthError
from auth.pepper import Peppers, create_peppers
from auth.record import DEFAULT_SCOPES, KeyRecord, Lane, NewKey
from auth.store import KeyStore
from cli.console import complain, say
from cli.options import with_settings
from cli.settings import Settings
from cli.wiring import read_peppers

app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)

Result = TypeVar("Result")


@app.command()
@with_settings(("database_url", "pepper", "data_dir"))
def create(  # noqa: PLR0913 - an option each
    settings: Settings,
    name: Annotated[str, typer.Option(help="What the key is for")],
    scope: Annotated[list[str] | None, typer.Option(help="embed | rerank | admin")] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="A model id it may use; default all")
    ] = None,
    lane: Annotated[
        str | None, typer.Option(help="online | bulk: of requests that name none; default by size")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Make a key and show it, this once."""
    new = NewKey(
        name=name,
        scopes=frozenset(scope) if scope else DEFAULT_SCOPES,
        models=frozenset(model) if model else None,
        lane=cast(Lane | None, lane),  # the store checks it
    )
    key, record = _run(_create(settings, new))
    if as_json:
        typer.echo(json.dumps({"id": record.kid, "key": key, "name": record.name}))
        return
    typer.echo(key)
    say(f"Key {record.kid} ({record.name}). It is not shown again.")


@app.command("list")
@with_settings(("database_url", "data_dir"))
def list_(
    settings: Settings,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Show the keys, without their secrets."""
    records = _run(_with_store(settings, lambda store: store.list()))
    if as_json:
        typer.echo(json.dumps([_describe(record) for record in records]))
        return
    table = Table("id", "name", "scopes", "models", "created", "state")
    for record in records:
        row = _describe(record)
        table.add_row(
            *(
                row["id"],
                row["name"],
                ", ".join(row["scopes"]),
                ", ".join(row["models"] or ["all"]),
            ),
            *(time.strftime("%Y-%m-%d", time.gmtime(record.created_at)), row["state"]),
        )
    Console().print(table)


@app.command()
@with_settings(("database_url", "data_dir"))
def revoke(settings: Settings, kid: Annotated[str, typer.Argument(help="The key's id")]) -> None:
    """Refuse a key from now on: running servers follow within 5 s."""
    record = _run(_with_store(settings, lambda store: store.revoke(kid)))
    typer.echo(f"Key {record.kid} ({record.name}) is revoked.")


async def _create(settings: Settings, new: NewKey) -> tuple[str, KeyRecord]:
    async def make(store: KeyStore) -> tuple[str, KeyRecord]:
        await store.migrate()
        return await store.create(new, await _peppers(settings, store))

    return await _with_store(settings, make)


async def _peppers(settings: Settings, store: KeyStore) -> Peppers:
    """Those given; the file's; made at the first key, never again: old keys need the old ones."""
    if settings.pepper is not None or await store.count():
        return read_peppers(settings)
    return create_peppers(settings.pepper_path)


async def _with_store(settings: Settings, use: Callable[[KeyStore], Awaitable[Result]]) -> Result:
    store = KeyStore(settings.database)
    try:
        return await use(store)
    finally:
        await store.close()


def _describe(record: KeyRecord) -> dict[str, Any]:
    revoked = record.revoked_at is not None
    return {
        "id": record.kid,
        "name": record.name,
        "scopes": sorted(record.scopes),
        "models": sorted(record.models) if record.models is not None else None,
        "lane": record.lane,
        "created_at": record.created_at,
        "state": "revoked" if revoked else "active" if record.active(time.time()) else "expired",
    }


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    try:
        return asyncio.run(work)
    except AuthError as error:
        complain(error)
        raise typer.Exit(1) from None
