"""The schema of the database: at which revision it is, and how it gets to the newest."""

import logging
from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select, text

from auth.errors import SchemaNewer, SchemaOutdated

HEAD = "0002"  # the newest file of migrations/versions; four digits, so that they compare as text
SCRIPTS = Path(__file__).parent / "migrations"
_LOCK = 0x666C6F72696C  # any number, the same in every process

_version = Table("alembic_version", MetaData(), Column("version_num", String(32)))


def check(connection: Connection) -> None:
    """Raises `SchemaOutdated` or `SchemaNewer` unless the schema is at the newest revision."""
    _check(_current(connection))


def upgrade(connection: Connection) -> None:
    """Bring the schema to the newest revision within the transaction of `connection`.

    Raises `SchemaNewer` and changes nothing when the database is ahead of this program.
    """
    _take_turn(connection)
    current = _current(connection)
    if current is None or current < HEAD:
        _run_revisions(connection)
    else:
        _check(current)


def create(connection: Connection) -> None:
    """Make the tables where there are none; an older schema is its operator's to upgrade.

    Raises `SchemaOutdated` and `SchemaNewer`.
    """
    _take_turn(connection)
    current = _current(connection)
    if current is None:
        _run_revisions(connection)
    else:
        _check(current)


def _current(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_version.name):
        return None
    return connection.execute(select(_version.c.version_num)).scalar_one_or_none()


def _check(current: str | None) -> None:
    if current is None or current < HEAD:
        raise SchemaOutdated(
            f"the database is at revision {current}; this version needs {HEAD}: "
            "run `florilege db upgrade`"
        )
    if current > HEAD:
        raise SchemaNewer(f"the database is at revision {current}; this version knows {HEAD}")


def _take_turn(connection: Connection) -> None:
    # SQLite lets one writer in at a time. PostgreSQL would let two make the same tables, of which
    # one fails.
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:of)"), {"of": _LOCK})


def _run_revisions(connection: Connection) -> None:
    # It tells its progress at INFO, from its import on; that is not the log of a server.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    from alembic import command
    from alembic.config import Config

    config = Config()
    # The value is interpolated: a percent sign of the path is doubled.
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)
