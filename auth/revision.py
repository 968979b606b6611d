"""The revision of the store: it grows with every change that gateways must see."""

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from auth.schema import key_revision


async def raise_revision(connection: AsyncConnection) -> int:
    """First in every writing transaction: the row lets one writer in at a time, on any database,
    so that revisions become visible in their order.
    """
    raised = (
        update(key_revision)
        .values(revision=key_revision.c.revision + 1)
        .returning(key_revision.c.revision)
    )
    revision: int = (await connection.execute(raised)).scalar_one()
    return revision


async def read_revision(connection: AsyncConnection) -> int:
    revision: int = (await connection.execute(select(key_revision.c.revision))).scalar_one()
    return revision
