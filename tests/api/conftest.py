from collections.abc import AsyncIterator

import pytest
from fake_service import FakeService, running_service


@pytest.fixture
async def service() -> AsyncIterator[FakeService]:
    """An embedding model and a reranker behind the public app."""
    async with running_service() as service:
        yield service
