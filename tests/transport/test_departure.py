"""A worker that leaves is known to be gone at once; its model stays known."""

import asyncio

from redis_server import RedisServer
from transport_jobs import MODEL, make_announcement

from transport.redis.client import ClientConfig, RedisJobClient
from transport.redis.connections import RedisConfig
from transport.redis.consumer import RedisJobConsumer


async def live_workers(client: RedisJobClient, expected: int) -> None:
    async with asyncio.timeout(2):  # heartbeats would live for 8 s
        while (await client.models())[MODEL].live_workers != expected:
            await asyncio.sleep(0.001)


async def test_worker_that_left_is_live_no_longer_and_its_model_known(redis: RedisServer) -> None:
    workers = [RedisJobConsumer(RedisConfig(redis.url), name) for name in ("w1", "w2")]
    for worker in workers:
        await worker.start()
        await worker.announce(make_announcement())
    clients = [RedisJobClient(RedisConfig(redis.url), ClientConfig(discovery_s=0.01))]
    await clients[0].start()
    await live_workers(clients[0], 2)
    await workers[0].close()
    await live_workers(clients[0], 1)
    await workers[1].close()
    await live_workers(clients[0], 0)
    clients.append(RedisJobClient(RedisConfig(redis.url), ClientConfig(discovery_s=0.01)))
    await clients[1].start()
    await live_workers(clients[1], 0)  # one who came too late knows the model as well
    for client in clients:
        await client.close()


async def test_model_that_redis_forgot_keeps_its_workers(redis: RedisServer) -> None:
    worker = RedisJobConsumer(RedisConfig(redis.url), "w1")
    await worker.start()
    await worker.announce(make_announcement())
    client = RedisJobClient(RedisConfig(redis.url), ClientConfig(discovery_s=0.01))
    await client.start()
    await live_workers(client, 1)
    redis.call("FLUSHALL")
    for _ in range(20):
        await asyncio.sleep(0.01)
        await live_workers(client, 1)
    await client.close()
    await worker.close()
