"""A worker reckons with Redis' clock, and asks for it again; its lines have one server."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from redis_server import RedisServer, running_redis
from redis_sides import RENEWS, receive, where, worker
from transport_jobs import MODEL, make_job, make_result

from transport.redis.connections import Connections, RedisConfig
from transport.redis.consumer import RedisJobConsumer
from transport.redis.entries import encode_fields
from transport.redis.events import ignore
from transport.redis.keys import model_keys
from transport.redis.line import Line

WaitUntil = Callable[..., Awaitable[None]]
QUEUE = model_keys(MODEL).queues[0]


async def test_deadline_and_wait_count_from_the_submission(redis: RedisServer) -> None:
    """By Redis' clock, and not from when the worker heard of the job."""
    job = make_job()
    waited_s, budget_s = 2.0, 10.0
    fields = encode_fields(job, job.encode(), "gone", int(budget_s * 1000))
    async with worker(redis) as consumer:
        with redis.client() as direct:
            seconds, micros = direct.time()
            submitted_ms = int((seconds - waited_s) * 1000 + micros / 1000)
            direct.execute_command("XADD", QUEUE, f"{submitted_ms}-0", *fields)
        (delivery,) = await receive(consumer)
        left_s = delivery.deadline_s - asyncio.get_running_loop().time()
        assert left_s == pytest.approx(budget_s - waited_s, abs=0.5)
        assert delivery.waited_s == pytest.approx(waited_s, abs=0.5)
        await consumer.complete(delivery, make_result(delivery.job))


def asked_for_the_time(redis: RedisServer) -> int:
    with redis.client() as direct:
        return int(direct.info("commandstats").get("cmdstat_time", {}).get("calls", 0))


async def test_worker_asks_for_the_time_again_and_again(
    redis: RedisServer, wait_until: WaitUntil
) -> None:
    consumer = RedisJobConsumer(where(redis), "w1", RENEWS)  # it asks for nothing else
    await consumer.start()
    started = asked_for_the_time(redis)
    await wait_until(lambda: asked_for_the_time(redis) >= started + 2)
    await consumer.close()


async def run_id(line: Line) -> str:
    text: bytes = await line.execute("INFO", "server")
    return text.decode().split("run_id:")[1].split()[0]


async def test_no_line_stays_with_an_old_server_that_still_answers(
    redis: RedisServer, tmp_path: Path
) -> None:
    """One line finds the new master; the others' connections to the old one are whole."""
    address = tmp_path / "redis.sock"
    with running_redis() as promoted:
        address.symlink_to(redis.socket)
        connections = Connections(RedisConfig(f"unix://{address}"), ignore)
        lines = [connections.commands, connections.health, connections.blocking()]
        (before,) = {await run_id(line) for line in lines}
        address.unlink()
        address.symlink_to(promoted.socket)
        client = await connections.commands.execute("CLIENT", "ID")
        redis.call("CLIENT", "KILL", "ID", str(client))
        await connections.commands.execute("PING")
        (after,) = {await run_id(line) for line in lines}
        assert after != before
        await connections.close()
