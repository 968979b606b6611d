"""The projects: names that several keys share, and with them limits."""

from collections.abc import Mapping
from dataclasses import asdict

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from auth.errors import UnknownProject
from auth.record import Limits, is_storable
from auth.rows import limits_of
from auth.schema import projects


async def read_projects(connection: AsyncConnection) -> dict[str, Limits]:
    """The limits of each, by name."""
    rows = await connection.execute(select(projects).order_by(projects.c.name))
    return {row.name: limits_of(row) for row in rows}


async def ensure_project(connection: AsyncConnection, name: str, now: int) -> None:
    """Make it, without limits, where it is new."""
    statement = select(projects.c.name).where(projects.c.name == name)
    if (await connection.execute(statement)).first() is None:
        await connection.execute(insert(projects).values(name=name, created_at=now))


async def change_limits(
    connection: AsyncConnection, name: str, changes: Mapping[str, int | float | None]
) -> Limits:
    """The limits it now has. Raises `UnknownProject` and `KeyRefused`."""
    row = None
    if is_storable(name):
        row = (await connection.execute(select(projects).where(projects.c.name == name))).first()
    if row is None:
        raise UnknownProject(f"no project {name!r}: the first key made for it makes it")
    limits = limits_of(row).changed(changes)
    await connection.execute(
        update(projects).where(projects.c.name == name).values(**asdict(limits))
    )
    return limits
