"""What every test may use."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

Predicate = Callable[[], object]


async def _wait_until(predicate: Predicate, timeout_s: float = 10.0) -> None:
    """Poll until the predicate holds. The only waiting that tests do."""
    async with asyncio.timeout(timeout_s):
        while not predicate():
            await asyncio.sleep(0.001)


@pytest.fixture
def wait_until() -> Callable[..., Awaitable[None]]:
    return _wait_until
