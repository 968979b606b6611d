"""Gateways and workers of two versions of the wire format at one Redis, as in an upgrade."""

import time

import pytest
from redis_keyspace import left_behind
from redis_server import RedisServer
from redis_sides import gateway, receive, submit, worker
from transport_jobs import MODEL, make_job, make_result

from transport.messages import WIRE_VERSION, Job
from transport.redis.entries import encode_fields
from transport.redis.keys import model_keys

QUEUE = model_keys(MODEL).queues[0]
NEXT = WIRE_VERSION + 1


def of_next_version(frame: bytes) -> bytes:
    changed = frame.replace(f'"version":{WIRE_VERSION}'.encode(), f'"version":{NEXT}'.encode())
    assert changed != frame
    return changed


async def test_job_of_another_version_is_left_to_who_can_read_it(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = Job.encode
    async with worker(redis, "old") as old, worker(redis, "new") as new, gateway(redis) as client:
        with monkeypatch.context() as upgraded:
            upgraded.setattr(Job, "encode", lambda job: of_next_version(encode(job)))
            task = await submit(client)
        for _ in range(3):  # it is not claimed again by who gave it back
            assert await old.receive(MODEL, 1_000, 0.05) == []
        assert not task.done()
        monkeypatch.setattr("transport.messages.WIRE_VERSION", NEXT)
        (delivery,) = await receive(new)
        assert delivery.attempt == 1
        await new.complete(delivery, make_result(delivery.job, 2.0))
        assert (await task).rows[0, 0] == 2.0
    assert not left_behind(redis)


async def test_job_that_nobody_can_read_is_forgotten_after_its_time(
    redis: RedisServer,
) -> None:
    async with worker(redis) as consumer:
        job, budget_ms = make_job(), 300
        fields = encode_fields(job, of_next_version(job.encode()), "gone", budget_ms)
        redis.call("INCRBY", model_keys(MODEL).tokens[0], str(job.tokens))
        with redis.client() as direct:
            added_s = time.monotonic()
            direct.execute_command("XADD", QUEUE, "*", *fields)
            while direct.xlen(QUEUE):
                assert await consumer.receive(MODEL, 1_000, 0.02) == []
                assert time.monotonic() < added_s + 5
        assert time.monotonic() >= added_s + budget_ms / 1000 - 0.01
    assert not left_behind(redis)
