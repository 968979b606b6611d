"""Which peppers the keys were made with: a fingerprint of each version, kept beside them."""

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from auth.errors import PepperMismatch
from auth.schema import peppers


async def pin_pepper(
    connection: AsyncConnection, version: int, fingerprint: bytes, now: int
) -> None:
    """Raises `PepperMismatch` where the version is pinned to another."""
    statement = select(peppers.c.fingerprint).where(peppers.c.version == version)
    known = (await connection.execute(statement)).scalar_one_or_none()
    if known is None:
        await connection.execute(
            insert(peppers).values(version=version, fingerprint=fingerprint, created_at=now)
        )
    elif known != fingerprint:
        raise PepperMismatch(f"pepper {version} is not the one that the keys were made with")


async def read_pinned(connection: AsyncConnection) -> dict[int, bytes]:
    """The fingerprints by version."""
    rows = await connection.execute(select(peppers.c.version, peppers.c.fingerprint))
    return {row.version: row.fingerprint for row in rows}
