"""`florilege keys`: make, show, rotate, limit and revoke API keys."""

import json
import time
from dataclasses import asdict
from typing import Annotated, Any, cast

import typer

from api.admin.key_answer import describe
from auth.errors import UnknownProject
from auth.key import DEFAULT_ENV
from auth.pepper import Peppers, create_peppers
from auth.record import DEFAULT_SCOPES, KeyRecord, Lane, Limits, NewKey, Rotation
from auth.store import KeyStore
from cli.console import say
from cli.database import change, read, run
from cli.durations import parse_duration
from cli.flags import REDIS
from cli.key_tables import print_key, print_keys, print_limits
from cli.options import with_settings
from cli.settings import Settings
from cli.wiring import read_peppers

app = typer.Typer(
    help="Make, show, rotate, limit and revoke API keys.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its tracebacks show local variables: keys
)

# What looks; what changes, and tells the gateways; what makes a key besides.
_LOOK = ("database_url", "data_dir")
_CHANGE = (*_LOOK, *REDIS)
_MAKE = (*_CHANGE, "pepper")
_GRACE_S = 86_400


def _duration(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _count(text: str) -> int:
    """0 stands for no limit: None would be a flag that is not given."""
    try:
        return 0 if text == "none" else int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r}: a whole number, or none") from None


def _seconds(text: str) -> float:
    try:
        return 0.0 if text == "none" else float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r}: seconds, or none") from None


def _limit(help_: str, parser: Any = _count) -> Any:
    return typer.Option(help=f"{help_}; 0 or none: no limit", parser=parser, metavar="N")


Rpm = Annotated[int | None, _limit("Requests a minute")]
Tpm = Annotated[int | None, _limit("Tokens a minute")]
DailyTokens = Annotated[int | None, _limit("Tokens a day (UTC)")]
MonthlyTokens = Annotated[int | None, _limit("Tokens a calendar month (UTC)")]
Concurrency = Annotated[int | None, _limit("Requests at a time")]
BurstS = Annotated[
    float | None,
    typer.Option(
        help="How many seconds' worth of a rate may be spent at once; 0 or none: 60",
        parser=_seconds,
        metavar="S",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON")]
Kid = Annotated[str, typer.Argument(help="The key's id", metavar="KID")]


@app.command()
@with_settings(_MAKE)
def create(  # noqa: PLR0913 - an option each
    settings: Settings,
    name: Annotated[str, typer.Option(help="What the key is for")],
    rpm: Rpm = None,
    tpm: Tpm = None,
    daily_tokens: DailyTokens = None,
    monthly_tokens: MonthlyTokens = None,
    concurrency: Concurrency = None,
    burst_s: BurstS = None,
    project: Annotated[
        str | None, typer.Option(help="Shares its limits; made when first named")
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Who answers for it")] = None,
    env: Annotated[str, typer.Option(help="Stands in the key: sk-ENV-…")] = DEFAULT_ENV,
    lane: Annotated[
        str | None, typer.Option(help="online | bulk: of requests that name none; default by size")
    ] = None,
    scope: Annotated[
        list[str] | None, typer.Option(help="embed | rerank | admin; default the first two")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="A model id it may use; default all")
    ] = None,
    expires: Annotated[
        int | None, typer.Option(help="Its life, such as 30d or 12h", parser=_duration, metavar="T")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a key and show it, this once."""
    given = _given(rpm, tpm, daily_tokens, monthly_tokens, concurrency, burst_s)
    new = NewKey(
        name=name,
        owner=owner,
        project=project,
        env=env,
        scopes=frozenset(scope) if scope else DEFAULT_SCOPES,
        models=frozenset(model) if model else None,
        lane=cast(Lane | None, lane),  # the store checks it
        limits=Limits(**cast(dict[str, Any], given)),
        expires_at=None if expires is None else int(time.time()) + expires,
    )

    async def make(store: KeyStore) -> tuple[str, KeyRecord]:
        return await store.create(new, await _peppers(settings, store))

    _show_new(*run(change(settings, make, may_be_first=True)), as_json)


@app.command("list")
@with_settings(_LOOK)
def list_(settings: Settings, as_json: Json = False) -> None:
    """Show the keys, without their secrets."""
    records = run(read(settings, lambda store: store.list()))
    if as_json:
        typer.echo(json.dumps([describe(record, time.time()) for record in records]))
    else:
        print_keys(records)


@app.command()
@with_settings(_LOOK)
def show(settings: Settings, kid: Kid, as_json: Json = False) -> None:
    """Show all of one key but its secret."""
    record = run(read(settings, lambda store: store.get(kid)))
    if as_json:
        typer.echo(json.dumps(describe(record, time.time())))
    else:
        print_key(record)


@app.command()
@with_settings(_MAKE)
def rotate(
    settings: Settings,
    kid: Kid,
    grace: Annotated[
        int | None,
        typer.Option(
            help="How long the old key lives on; default 24h", parser=_duration, metavar="T"
        ),
    ] = None,
    expires: Annotated[
        int | None,
        typer.Option(
            help="Life of the new key, such as 90d; default as long as the old one's was",
            parser=_duration,
            metavar="T",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a key with the same settings, and let this one expire."""
    terms = Rotation(_GRACE_S if grace is None else grace, expires)

    async def replace(store: KeyStore) -> tuple[str, KeyRecord]:
        return await store.rotate(kid, read_peppers(settings), terms)

    _show_new(*run(change(settings, replace)), as_json)


@app.command()
@with_settings(_CHANGE)
def revoke(settings: Settings, kid: Kid, as_json: Json = False) -> None:
    """Refuse a key from now on: running servers follow within 5 s."""
    record = run(change(settings, lambda store: store.revoke(kid)))
    if as_json:
        typer.echo(json.dumps(describe(record, time.time())))
    else:
        typer.echo(f"Key {record.kid} ({record.name}) is revoked.")


@app.command()
@with_settings(_CHANGE)
def limits(  # noqa: PLR0913 - an option each
    settings: Settings,
    kid: Annotated[str | None, typer.Argument(help="The key's id", metavar="KID")] = None,
    project: Annotated[str | None, typer.Option(help="Of a project instead of a key")] = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    daily_tokens: DailyTokens = None,
    monthly_tokens: MonthlyTokens = None,
    concurrency: Concurrency = None,
    burst_s: BurstS = None,
    as_json: Json = False,
) -> None:
    """Change the limits of a key or a project, and show them; what is not given stays."""
    if (kid is None) == (project is None):
        raise typer.BadParameter("the id of a key, or --project, and not both")
    changes = _given(rpm, tpm, daily_tokens, monthly_tokens, concurrency, burst_s)
    if project is None:
        in_force = run(_limit_key(settings, cast(str, kid), changes))
    else:
        in_force = run(_limit_project(settings, project, changes))
    if as_json:
        whose = {"id": kid} if project is None else {"project": project}
        typer.echo(json.dumps({**whose, "limits": asdict(in_force)}))
    else:
        print_limits(in_force)


async def _limit_key(
    settings: Settings, kid: str, changes: dict[str, int | float | None]
) -> Limits:
    if not changes:
        return (await read(settings, lambda store: store.get(kid))).limits
    return (await change(settings, lambda store: store.set_limits(kid, changes))).limits


async def _limit_project(
    settings: Settings, name: str, changes: dict[str, int | float | None]
) -> Limits:
    if changes:
        return await change(settings, lambda store: store.set_project_limits(name, changes))
    projects = await read(settings, lambda store: store.projects())
    if name not in projects:
        raise UnknownProject(f"no project {name!r}")
    return projects[name]


def _given(*values: int | float | None) -> dict[str, int | float | None]:
    """The limits whose flags were given, by their names in `Limits`."""
    names = ("rpm", "tpm", "daily_tokens", "monthly_tokens", "max_concurrency", "burst_s")
    return {
        name: value or None for name, value in zip(names, values, strict=True) if value is not None
    }


def _show_new(key: str, record: KeyRecord, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"id": record.kid, "key": key, **describe(record, time.time())}))
        return
    typer.echo(key)
    say(f"Key {record.kid} ({record.name}). It is not shown again.")


async def _peppers(settings: Settings, store: KeyStore) -> Peppers:
    """Those given; the file's; made at the first key, never again: old keys need the old ones."""
    if settings.pepper is not None or await store.count():
        return read_peppers(settings)
    return create_peppers(settings.pepper_path)
