"""How a key, and its limits, lie in their tables."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Row, bindparam, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from auth.errors import UnknownKey
from auth.key import KID_BYTES
from auth.record import KeyRecord, Limits, is_storable
from auth.schema import keys

LIMITS = tuple(f.name for f in fields(Limits))
_STREAMED = {"yield_per": 200}  # rows, some milliseconds' worth
_RECORD = [column for column in keys.c if column.name != "revision"]


async def read_keys(
    connection: AsyncConnection, which: ColumnElement[bool], most: int | None = None
) -> list[KeyRecord]:
    """The oldest first, `most` of them where that is given.

    Of a hundred thousand the event loop has its turns between: reading them takes seconds.
    """
    statement = select(*_RECORD).where(which).order_by(keys.c.created_at, keys.c.kid).limit(most)
    records: list[KeyRecord] = []
    async with connection.stream(statement, execution_options=_STREAMED) as result:
        async for rows in result.partitions():
            records += map(_record_of, rows)
            await asyncio.sleep(0)
    return records


def behind(record: KeyRecord) -> ColumnElement[bool]:
    """The keys that follow this one in the order of `read_keys`."""
    return tuple_(keys.c.created_at, keys.c.kid) > (record.created_at, record.kid)


async def read_key(connection: AsyncConnection, kid: str) -> KeyRecord:
    """Raises `UnknownKey`."""
    if not is_storable(kid):
        raise unknown_key(kid)
    found = await read_keys(connection, keys.c.kid == kid)
    if not found:
        raise unknown_key(kid)
    return found[0]


def unknown_key(kid: str) -> UnknownKey:
    """Its message repeats nothing longer than an id: a whole key may have been given for one."""
    if len(kid) > 2 * KID_BYTES:
        return UnknownKey(f"no such key: an id has {2 * KID_BYTES} characters")
    return UnknownKey(f"no key {kid}")


async def touch(connection: AsyncConnection, last_used: Mapping[str, int]) -> None:
    """Keep when keys were last used, by key id, in seconds since 1970; an earlier time is none.

    In the order of the key ids, so that two gateways never wait for each other. The revision stays:
    no gateway needs to read this.
    """
    if not last_used:
        return
    statement = (
        update(keys)
        .where(
            keys.c.kid == bindparam("of_kid"),
            or_(keys.c.last_used_at.is_(None), keys.c.last_used_at < bindparam("used_at")),
        )
        .values(last_used_at=bindparam("used_at"))
    )
    await connection.execute(
        statement, [{"of_kid": kid, "used_at": at} for kid, at in sorted(last_used.items())]
    )


def row_of(record: KeyRecord) -> dict[str, Any]:
    row: dict[str, Any] = {f.name: getattr(record, f.name) for f in fields(record)}
    row |= asdict(row.pop("limits"))
    row["scopes"] = sorted(record.scopes)
    row["models"] = None if record.models is None else sorted(record.models)
    return row


def limits_of(row: Row[Any]) -> Limits:
    return _limits(*[row._mapping[name] for name in LIMITS])


# Most keys have the limits and scopes of others. Objects of their own would be looked through at
# each full collection of garbage, in which the event loop stands still.
@lru_cache(maxsize=4_096)
def _limits(*values: int | float | None) -> Limits:
    named: dict[str, Any] = dict(zip(LIMITS, values, strict=True))
    return Limits(**named)


@lru_cache(maxsize=4_096)
def _names(*names: str) -> frozenset[str]:
    return frozenset(names)


def _record_of(row: Row[Any]) -> KeyRecord:
    values: Mapping[str, Any] = dict(row._mapping)
    return KeyRecord(
        **{name: value for name, value in values.items() if name not in LIMITS}
        | {
            "limits": limits_of(row),
            "scopes": _names(*values["scopes"]),
            "models": None if values["models"] is None else _names(*values["models"]),
        }
    )
