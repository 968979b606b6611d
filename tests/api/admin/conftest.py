from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from admin_side import AdminSide, running_admin


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[AdminSide]:
    """The admin port, with one key of its scope."""
    async with running_admin(tmp_path) as side:
        yield side
