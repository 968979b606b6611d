"""A worker is healthy while Redis lets it work, not merely while Redis answers."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest
from redis_server import RedisServer
from redis_sides import RENEWS, where
from transport_jobs import MODEL, make_announcement

from transport.redis.consumer import RedisJobConsumer
from transport.redis.keys import MODELS

QUICK = replace(RENEWS, healthy_s=0.3)


@pytest.fixture
def forbidding(redis: RedisServer) -> Iterator[RedisServer]:
    yield redis
    redis.call("ACL", "SETUSER", "default", "allcommands", "allkeys")


async def started(redis: RedisServer) -> RedisJobConsumer:
    consumer = RedisJobConsumer(where(redis), "w1", QUICK)
    await consumer.start()
    await consumer.announce(make_announcement())
    assert await consumer.receive(MODEL, 1, 0.01) == []
    assert consumer.healthy
    return consumer


async def test_worker_that_may_take_no_jobs_is_not_healthy(forbidding: RedisServer) -> None:
    consumer = await started(forbidding)
    forbidding.call("ACL", "SETUSER", "default", "-xreadgroup")
    assert await consumer.receive(MODEL, 1, 0.01) == []
    assert consumer.healthy  # it may pass
    async with asyncio.timeout(5):
        while consumer.healthy:
            assert await consumer.receive(MODEL, 1, 0.01) == []
    forbidding.call("ACL", "SETUSER", "default", "+xreadgroup")
    assert await consumer.receive(MODEL, 1, 0.01) == []
    assert consumer.healthy
    await consumer.close()


async def test_worker_that_cannot_say_it_lives_is_not_healthy(redis: RedisServer) -> None:
    consumer = await started(redis)
    redis.call("DEL", MODELS)
    redis.call("SET", MODELS, "no sorted set")
    async with asyncio.timeout(5):
        while consumer.healthy:
            await consumer.announce(make_announcement())
    redis.call("DEL", MODELS)
    await consumer.announce(make_announcement())
    assert consumer.healthy
    await consumer.close()
