"""`florilege db`: the schema of the database."""

import typer

from auth.migrate import HEAD
from cli.console import say
from cli.database import open_store, run
from cli.options import with_settings
from cli.settings import Settings

app = typer.Typer(help="Look after the database of keys and usage.", no_args_is_help=True)


@app.callback()
def db() -> None:
    """Look after the database of keys and usage."""


@app.command()
@with_settings(("database_url", "data_dir"))
def upgrade(settings: Settings) -> None:
    """Make the database, or bring it to the schema of this version; again is nothing."""
    run(_upgrade(settings))
    say(f"The database is at revision {HEAD}.")


async def _upgrade(settings: Settings) -> None:
    async with open_store(settings) as store:
        await store.migrate()
