"""The audit log: who changed which key or project, and how."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from auth.record import KeyRecord
from auth.rows import LIMITS
from auth.schema import audit

CLI = "cli"  # who acts at the command line: whoever may open the database
Action = Literal["create", "rotate", "revoke", "limits"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of a key or a project."""

    at: int  # seconds since 1970, UTC
    actor: str  # the key id of an administrator, or "cli"
    action: Action
    target: str  # a key id, or "project:NAME"
    detail: Mapping[str, Any]  # as JSON can hold it; never a key or its digest


@dataclass(frozen=True, kw_only=True)
class AuditEntry(Change):
    """A row of `audit`."""

    id: int  # grows with time


class LastChange(NamedTuple):
    """What tells one change from every other."""

    id: int
    at: int
    action: str
    target: str


_LAST = select(audit.c.id, audit.c.at, audit.c.action, audit.c.target)


async def write_audit(connection: AsyncConnection, change: Change) -> None:
    """In the transaction of the change: neither is there without the other."""
    await connection.execute(insert(audit).values(**vars(change)))


async def read_audit(
    connection: AsyncConnection, limit: int, before_id: int | None
) -> list[AuditEntry]:
    """The newest first; of those before an entry where `before_id` is given."""
    statement = select(audit).order_by(audit.c.id.desc()).limit(limit)
    if before_id is not None:
        statement = statement.where(audit.c.id < before_id)
    return [AuditEntry(**row._mapping) for row in await connection.execute(statement)]


async def read_last(connection: AsyncConnection) -> LastChange | None:
    """The newest change; None where none was written down."""
    row = (await connection.execute(_LAST.order_by(audit.c.id.desc()).limit(1))).first()
    return None if row is None else LastChange(*row)


async def is_written(connection: AsyncConnection, change: LastChange) -> bool:
    """Whether this change is part of the history of the database: else it is another, or a copy
    that was taken before, and has gone on from there."""
    row = (await connection.execute(_LAST.where(audit.c.id == change.id))).first()
    return row is not None and LastChange(*row) == change


def settings_of(record: KeyRecord) -> dict[str, Any]:
    """What the maker of a key decided, for the detail of an entry."""
    limits = {name: getattr(record.limits, name) for name in LIMITS}
    return {
        "name": record.name,
        "owner": record.owner,
        "project": record.project,
        "env": record.env,
        "scopes": sorted(record.scopes),
        "models": None if record.models is None else sorted(record.models),
        "lane": record.lane,
        "limits": {name: value for name, value in limits.items() if value is not None},
        "expires_at": record.expires_at,
    }


def project_target(name: str) -> str:
    return f"project:{name}"
