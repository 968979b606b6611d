"""Usage in SQL: counts are added to it, never put in the place of others."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    cast,
    delete,
    func,
    select,
    true,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from auth.calendar import DAY_S
from auth.database import Database
from auth.holder import Holder
from auth.record import is_storable
from auth.rows import touch
from auth.schema import usage, usage_flushes
from auth.usage.count import Batch
from auth.usage.query import UsageQuery, UsageTotal

# A gateway silent for so long has ended: it tries a batch again within seconds.
FORGET_GATEWAY_S = 30 * DAY_S

# After an outage a batch may be large: the event loop has its turn between, and no statement comes
# near the time that one may take.
ROWS_AT_ONCE = 500

Item = TypeVar("Item")

_COLUMNS = {
    "day": usage.c.day,
    "key": usage.c.kid,
    "project": usage.c.project,
    "model": usage.c.model,
    "kind": usage.c.kind,
}
_INSERTS: Mapping[str, Any] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


class UsageStore:
    """Usage by day, key, project, model and kind; many processes may share one database.

    An SQLite file that does not exist is read as one without usage, and is never made here. All
    methods raise `StoreUnavailable` when the database fails.
    """

    def __init__(self, database_url: str) -> None:
        self._database = Database(database_url)

    def exists(self) -> bool:
        """False for an SQLite file that is not there; a database server is taken to exist."""
        return self._database.exists()

    async def add(self, batch: Batch) -> None:
        """Add a batch, unless this one, or a later one of its gateway, was added before."""
        async with self._database.write() as connection:
            if not await _is_new(connection, batch):
                return
            await _add_counts(connection, batch)
            for part in _parts(sorted(batch.last_used.items())):
                await touch(connection, dict(part))
            if batch.sequence == 1:
                ended = usage_flushes.c.flushed_at < batch.at - FORGET_GATEWAY_S
                await connection.execute(delete(usage_flushes).where(ended))

    async def totals(self, query: UsageQuery) -> list[UsageTotal]:
        """One line a group that was used, in the order of what it is grouped by."""
        if not self.exists():
            return []
        groups = [_COLUMNS[name].label(name) for name in query.by]
        statement = (
            select(*groups, _sum(usage.c.requests, "requests"), _sum(usage.c.tokens, "tokens"))
            .where(*_filters(query))
            .group_by(*(_COLUMNS[name] for name in query.by))
            .order_by(*(_COLUMNS[name] for name in query.by))
        )
        if not groups:  # without a group there is always one line, of nulls where nothing was used
            statement = statement.having(func.count() > 0)
        async with self._database.read() as connection:
            return [UsageTotal(**row._mapping) for row in await connection.execute(statement)]

    async def tokens_of(self, holder: Holder, since: int) -> int:
        """Tokens of a key or a project from that day (20261129) on."""
        if not self.exists():
            return 0
        column = usage.c.kid if holder.kind == "key" else usage.c.project
        total = func.coalesce(func.sum(usage.c.tokens), 0)
        statement = select(cast(total, BigInteger)).where(
            column == holder.name, usage.c.day >= since
        )
        async with self._database.read() as connection:
            return (await connection.execute(statement)).scalar_one()

    async def close(self) -> None:
        await self._database.close()


async def _is_new(connection: AsyncConnection, batch: Batch) -> bool:
    """First in the transaction, and one statement: it waits for a commit of the same batch whose
    answer was lost and which the database has still to finish."""
    insert = _INSERTS[connection.dialect.name](usage_flushes).values(
        gateway=batch.gateway, sequence=batch.sequence, flushed_at=batch.at
    )
    raised = insert.on_conflict_do_update(
        index_elements=[usage_flushes.c.gateway],
        set_={"sequence": insert.excluded.sequence, "flushed_at": insert.excluded.flushed_at},
        where=usage_flushes.c.sequence < insert.excluded.sequence,
    ).returning(usage_flushes.c.gateway)
    return (await connection.execute(raised)).first() is not None


async def _add_counts(connection: AsyncConnection, batch: Batch) -> None:
    if not batch.counts:
        return
    insert = _INSERTS[connection.dialect.name](usage)
    added = insert.on_conflict_do_update(
        index_elements=list(usage.primary_key),
        set_={
            "requests": usage.c.requests + insert.excluded.requests,
            "tokens": usage.c.tokens + insert.excluded.tokens,
        },
    )
    # Sorted: gateways that lock the rows they share in one order never wait for each other twice.
    for part in _parts(sorted(batch.counts.items(), key=lambda item: item[0])):
        rows = [
            use._asdict() | {"requests": count.requests, "tokens": count.tokens}
            for use, count in part
        ]
        await connection.execute(added, rows)


def _parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for first in range(0, len(items), ROWS_AT_ONCE):
        yield items[first : first + ROWS_AT_ONCE]


def _filters(query: UsageQuery) -> list[ColumnElement[bool]]:
    filters: list[ColumnElement[bool]] = [true()]
    if query.since is not None:
        filters.append(usage.c.day >= query.since)
    if query.until is not None:
        filters.append(usage.c.day < query.until)
    if query.kind is not None:
        filters.append(usage.c.kind == query.kind)
    for column, wanted in (
        (usage.c.kid, query.keys),
        (usage.c.project, query.projects),
        (usage.c.model, query.models),
    ):
        if wanted is not None:
            filters.append(column.in_(sorted(filter(is_storable, wanted))))
    return filters


def _sum(column: ColumnElement[int], name: str) -> ColumnElement[int]:
    # PostgreSQL adds bigints up to a numeric, which would come back as a Decimal.
    return cast(func.sum(column), BigInteger).label(name)
