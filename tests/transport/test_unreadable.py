"""What somebody else wrote into Redis costs itself alone, never those who read on."""

import asyncio
from typing import Any

import pytest
from redis_server import RedisServer
from redis_sides import Events, answering, gateway, receive, submit, where, worker
from transport_jobs import MODEL, make_announcement, make_job, make_result

from transport.messages import JobError, encode_outcome
from transport.redis.announce import Announced
from transport.redis.client import RedisJobClient
from transport.redis.consumer import RedisJobConsumer
from transport.redis.keys import MODELS, model_keys, reply_key
from transport.redis.replies import Assembly

HEARTBEATS = model_keys(MODEL).heartbeats
QUEUED = b"1 0 0 0 0"
UNREADABLE_SPECS = ["not json", "[]", "{}", '{"id": 1}', '{"calibration": 3}']


def announce_by_hand(redis: RedisServer, model: str, spec: str) -> None:
    redis.call("HSET", model_keys(model).spec, "spec", spec, "digest", "x")
    redis.call("ZADD", MODELS, "9999999999999", model)


async def live(client: RedisJobClient) -> None:
    async with asyncio.timeout(5):
        while MODEL not in (known := await client.models()) or not known[MODEL].live_workers:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("spec", UNREADABLE_SPECS)
async def test_gateway_starts_and_serves_beside_an_unreadable_model(
    redis: RedisServer, spec: str
) -> None:
    announce_by_hand(redis, "evil", spec)
    async with worker(redis), asyncio.timeout(5), gateway(redis) as client:
        await live(client)
        assert set(await client.models()) == {MODEL}


async def test_models_are_discovered_after_an_unreadable_one(redis: RedisServer) -> None:
    async with gateway(redis) as client:
        announce_by_hand(redis, "evil", "not json")
        await asyncio.sleep(0.1)  # five looks
        async with worker(redis):
            await live(client)


async def test_model_whose_announcement_is_mended_is_served(redis: RedisServer) -> None:
    announce_by_hand(redis, MODEL, "not json")
    async with gateway(redis) as client:
        assert not await client.models()
        async with worker(redis):
            await live(client)


async def test_key_of_another_kind_hides_its_own_model_alone(redis: RedisServer) -> None:
    redis.call("SET", model_keys("evil").spec, "x")
    redis.call("SET", model_keys("worse").heartbeats, "x")
    redis.call("HSET", model_keys("worse").spec, "digest", "x")
    redis.call("ZADD", MODELS, "9999999999999", "evil", "9999999999999", "worse")
    async with worker(redis), asyncio.timeout(5), gateway(redis) as client:
        await live(client)


@pytest.mark.parametrize("heartbeat", ["", "x", "x 1", "12x 1"])
async def test_unreadable_heartbeat_goes_with_the_next_one(
    redis: RedisServer, heartbeat: str
) -> None:
    async with worker(redis) as consumer, gateway(redis) as client:
        redis.call("HSET", HEARTBEATS, "evil", heartbeat)
        await consumer.announce(make_announcement())
        assert redis.call("HKEYS", HEARTBEATS) == "w1"
        await live(client)


async def test_worker_leaves_beside_an_unreadable_heartbeat(redis: RedisServer) -> None:
    queue = model_keys(MODEL).queues[0]
    consumer = RedisJobConsumer(where(redis), "w1")
    await consumer.start()
    await consumer.announce(make_announcement())
    await consumer.receive(MODEL, 1, 0.01)
    redis.call("XGROUP", "CREATECONSUMER", queue, "w", "evil")
    redis.call("HSET", HEARTBEATS, "evil", "x")
    await consumer.close()
    assert redis.call("HKEYS", HEARTBEATS) == ""
    assert "w1" not in redis.call("XINFO", "CONSUMERS", queue, "w")


async def test_discovery_outlives_whatever_goes_wrong(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([RuntimeError("unforeseen")])
    refresh = Announced.refresh

    async def fail_once(self: Announced) -> None:
        for failure in failures:
            raise failure
        await refresh(self)

    async with gateway(redis) as client:
        monkeypatch.setattr(Announced, "refresh", fail_once)
        async with worker(redis):
            await live(client)


@pytest.mark.parametrize(
    "fields",
    [
        ("x", "y"),
        ("j", "job", "i", "0", "n", "1", "b", "x", "d", "y"),
        ("j", "job", "i", "x", "n", "2", "b", "1 0 0 0 0", "d", "y"),
    ],
)
async def test_answers_are_read_behind_an_unreadable_one(
    redis: RedisServer, fields: tuple[str, ...]
) -> None:
    events = Events()
    async with worker(redis) as consumer, gateway(redis, events=events) as client:
        waiting = await submit(client)
        redis.call("XADD", reply_key(client.name), "*", *fields)
        async with answering(consumer), asyncio.timeout(2):
            await waiting
            await client.submit(make_job())
        assert events.seen["unreadable_reply"] == 1
        assert events.seen["resubmitted"] == 0


def test_fields_of_a_newer_worker_are_left_out() -> None:
    fields = [b"new", b"1", b"j", b"a", b"i", b"0", b"n", b"1", b"b", QUEUED, b"d", b"frame"]
    (reply,) = Assembly().add(fields)
    assert (reply.job_id, reply.frame) == ("a", b"frame")


async def test_reply_stream_of_another_kind_is_made_anew(redis: RedisServer) -> None:
    async with worker(redis) as consumer, gateway(redis) as client:
        waiting = await submit(client)
        redis.call("SET", reply_key(client.name), "x")
        redis.call("EXPIRE", reply_key(client.name), "60")
        async with answering(consumer), asyncio.timeout(5):
            await asyncio.sleep(0.2)
            await waiting


async def test_answer_of_another_version_fails_its_job(redis: RedisServer) -> None:
    events = Events()
    async with worker(redis) as consumer, gateway(redis, events=events) as client:
        waiting = await submit(client)
        (delivery,) = await receive(consumer)
        frame = encode_outcome(delivery.job.job_id, JobError("invalid"))
        other: Any = frame.replace(b'"version":', b'"verzion":')
        assert other != frame
        head = ("j", delivery.job.job_id, "i", "0", "n", "1", "b", QUEUED, "d", other)
        with redis.client() as raw:
            raw.execute_command("XADD", reply_key(client.name), "*", *head)
        with pytest.raises(JobError, match="engine_failed"):
            async with asyncio.timeout(2):
                await waiting
        assert events.seen["unreadable_reply"] == 1
        await consumer.complete(delivery, make_result(delivery.job))
