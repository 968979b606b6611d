"""A database as any other program sees it: one statement, beside the store."""

from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool


async def execute(url: str, statement: str, **values: Any) -> list[tuple[Any, ...]]:
    """The rows it returns, if it does."""
    engine = create_async_engine(url, poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            result = await connection.execute(text(statement), values)
            return [tuple(row) for row in result] if result.returns_rows else []
    finally:
        await engine.dispose()


async def multiply_keys(url: str, count: int) -> None:
    """Copies of the only key, under ids of their own, at the revision it has."""
    columns = (
        *("digest", "pv", "name", "owner", "project", "env", "scopes", "models", "lane", "rpm"),
        *("tpm", "max_concurrency", "burst_s", "daily_tokens", "monthly_tokens", "created_at"),
        *("expires_at", "revoked_at", "last_used_at", "replaces", "revision"),
    )
    named = ", ".join(columns)
    kid = "printf('%012x', n)" if url.startswith("sqlite") else "lpad(to_hex(n), 12, '0')"
    await execute(
        url,
        "WITH RECURSIVE numbers(n) AS "  # noqa: S608
        "(SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count) "
        f"INSERT INTO keys (kid, {named}) SELECT {kid}, {named} FROM numbers, keys",
        count=count,
    )
