"""Redis that loses an answer at a bad moment, answers some and not others, or answers nobody."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from redis_server import RedisServer, running_redis
from redis_sides import QUICK, Events, answering, gateway, submit, where, worker
from transport_jobs import MODEL, make_job

from transport.redis.client import ClientConfig, RedisJobClient
from transport.redis.connections import RedisConfig
from transport.redis.events import ignore
from transport.redis.mailbox import MailboxConfig

NOTICED_S = 2.0


class LossyWay:
    """Stands between a gateway and Redis. Of the next command that holds `lose`, Redis hears, and
    its answer is lost with the connection."""

    def __init__(self, redis: RedisServer) -> None:
        self.lose = b""
        self.lost = 0
        self._redis = redis

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_redis, to_redis = await asyncio.open_unix_connection(str(self._redis.socket))
        loses = asyncio.Event()
        there = asyncio.create_task(self._there(reader, to_redis, loses))
        while (data := await from_redis.read(65_536)) and not loses.is_set():
            writer.write(data)
        there.cancel()
        writer.close()
        to_redis.close()

    async def _there(
        self, reader: asyncio.StreamReader, to_redis: asyncio.StreamWriter, loses: asyncio.Event
    ) -> None:
        while data := await reader.read(65_536):
            if self.lose and self.lose in data:
                self.lose = b""
                self.lost += 1
                loses.set()
            to_redis.write(data)
        to_redis.close()


@contextlib.asynccontextmanager
async def lossy_gateway(
    redis: RedisServer, directory: Path
) -> AsyncIterator[tuple[LossyWay, RedisJobClient]]:
    way, path = LossyWay(redis), directory / "lossy.sock"
    async with await asyncio.start_unix_server(way.carry, path):
        client = RedisJobClient(RedisConfig(f"unix://{path}?db=0", block_s=0.1), QUICK, ignore)
        await client.start()
        yield way, client
        await client.close()


async def test_forgotten_jobs_are_submitted_again_though_the_answer_to_a_new_stream_is_lost(
    redis: RedisServer, tmp_path: Path
) -> None:
    async with worker(redis) as consumer, lossy_gateway(redis, tmp_path) as (way, client):
        waiting = await submit(client)
        way.lose = b"CREATE"
        redis.call("FLUSHALL")
        async with answering(consumer), asyncio.timeout(NOTICED_S):
            await waiting
        assert way.lost == 1


async def test_gateway_that_cannot_read_its_answers_is_not_healthy(redis: RedisServer) -> None:
    config = ClientConfig(MailboxConfig(keep_alive_s=0.02, healthy_s=0.2), discovery_s=0.02)
    async with worker(redis) as consumer, gateway(redis, config) as client, answering(consumer):
        redis.call("ACL", "SETUSER", "default", "-xread")
        try:
            async with asyncio.timeout(5):
                while client.healthy:
                    await asyncio.sleep(0.001)
        finally:
            redis.call("ACL", "SETUSER", "default", "+xread")
        async with asyncio.timeout(5):
            while not client.healthy or not client.live_workers(MODEL):
                await asyncio.sleep(0.001)
            await client.submit(make_job())


async def test_many_who_need_the_backlog_ask_once(redis: RedisServer) -> None:
    config = ClientConfig(QUICK.mailbox, discovery_s=1_000, backlog_age_s=0.0)
    async with gateway(redis, config) as client:
        await client.backlog(MODEL, "online")
        before = _questions(redis)
        await asyncio.gather(*[client.backlog(MODEL, "online") for _ in range(50)])
        assert _questions(redis) - before == 1


async def test_backlog_of_a_redis_that_hangs_is_old_news_within_its_time() -> None:
    with running_redis() as redis:
        client = RedisJobClient(where(redis), ClientConfig(QUICK.mailbox), Events())
        async with worker(redis):
            await client.start()
            waiting = await submit(client)
            known = await client.backlog(MODEL, "online")
            await asyncio.sleep(ClientConfig().backlog_age_s)
            loop = asyncio.get_running_loop()
            redis.call("CLIENT", "PAUSE", "600", "ALL")
            asked_s = loop.time()
            news = await asyncio.gather(*[client.backlog(MODEL, "online") for _ in range(20)])
            assert loop.time() - asked_s < 0.4  # its own 0.1 s, on a busy machine
            assert known.jobs == 1
            assert {(at.jobs, at.tokens) for at in news} == {(known.jobs, known.tokens)}
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await client.close()


def _questions(redis: RedisServer) -> int:
    """How often a script that only reads was run."""
    with redis.client() as raw:
        stats = raw.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha_ro",))
