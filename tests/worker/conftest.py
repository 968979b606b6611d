from collections.abc import AsyncIterator

import pytest
from running_worker import RunningWorker


@pytest.fixture
async def running() -> AsyncIterator[RunningWorker]:
    async with RunningWorker.ready() as running:
        yield running
