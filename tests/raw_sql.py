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
