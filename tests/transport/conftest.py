"""A private Redis for each module of tests."""

from collections.abc import Iterator

import pytest
from redis_server import RedisServer, running_redis


@pytest.fixture(scope="module")
def redis_of_module() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def redis(redis_of_module: RedisServer) -> RedisServer:
    """Empty."""
    redis_of_module.call("FLUSHALL")
    return redis_of_module
