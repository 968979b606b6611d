"""What somebody else wrote into Redis costs itself alone, never those who read on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from redis_server import RedisServer
from redis_sides import Events, answering, gateway, receive, submit, where, worker
from structlog.testing import capture_logs
from transport_jobs import MODEL, make_announcement, make_job, make_result

from transport.messages import JobError, JobResult, encode_outcome
from transport.redis.announce import Announced
from transport.redis.client import RedisJobClient
from transport.redis.consumer import RedisJobConsumer
from transport.redis.keys import MODELS, model_keys, reply_key
from transport.redis.replies import CHUNK_BYTES, Assembly, cut

WaitUntil = Callable[..., Awaitable[None]]
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
    reply = Assembly().add(fields)
    assert reply is not None
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


def chunks(job_id: str, count: int = 4) -> list[dict[bytes, bytes]]:
    """The entries of an answer that is long."""
    rows = np.zeros((1, (count - 1) * CHUNK_BYTES // 4), np.float32)
    parts = cut(encode_outcome(job_id, JobResult(job_id, np.array([0, 1], np.int32), rows)))
    assert len(parts) == count
    return [
        {
            **{b"j": job_id.encode(), b"i": b"%d" % i, b"n": b"%d" % count},
            **{b"b": QUEUED, b"d": bytes(part)},
        }
        for i, part in enumerate(parts)
    ]


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: entry.update({b"b": b"x"}),
        lambda entry: entry.update({b"i": b"x"}),
        lambda entry: entry.pop(b"j"),
        lambda entry: entry.pop(b"d"),
        lambda entry: entry.clear() or entry.update({b"x": b"y"}),
    ],
)
async def test_unreadable_part_of_a_long_answer_fails_its_job_at_once(
    redis: RedisServer, damage: Any, place: int
) -> None:
    events = Events()
    async with worker(redis) as consumer, gateway(redis, events=events) as client:
        waiting, other = await submit(client), await submit(client)
        first, second = await receive(consumer, 2)
        entries = chunks(first.job.job_id)
        damage(entries[place])
        with redis.client() as raw:
            for entry in entries:
                raw.xadd(reply_key(client.name), entry)  # type: ignore[arg-type]
        with pytest.raises(JobError, match="engine_failed"):
            await asyncio.wait_for(waiting, 2)
        nobodys = place == 0 and b"j" not in entries[0]  # so nobody knows whose beginning it was
        assert events.seen["unreadable_reply"] == 1 + nobodys
        await consumer.complete(second, make_result(second.job))
        await asyncio.wait_for(other, 2)
        await consumer.complete(first, make_result(first.job))


def test_part_that_is_missing_breaks_its_answer_and_no_other() -> None:
    assembly = Assembly()
    for entry in (*chunks("a")[:2], *chunks("a")[3:]):
        assert assembly.add(flat(entry)) is None
    assert "a" in assembly.take_broken()
    assert assembly.take_broken() == []
    whole = [assembly.add(flat(entry)) for entry in chunks("b")]
    assert [reply.job_id for reply in whole if reply] == ["b"]
    assert assembly.take_broken() == []


@pytest.mark.parametrize(
    ("damage", "at_once"),
    [
        (lambda entries: entries.pop(1), True),
        (lambda entries: entries.pop(0), True),
        (lambda entries: entries.pop(-1), False),  # which only the next entry tells
        (lambda entries: entries[-1].update({b"n": b"99"}), True),
        (lambda entries: entries[0].update({b"n": b"99"}), True),
        (lambda entries: entries[-1].update({b"i": b"2"}), True),
    ],
)
async def test_answer_that_lacks_a_part_is_told_of_and_counted(
    redis: RedisServer, damage: Any, at_once: bool
) -> None:
    events = Events()
    async with worker(redis) as consumer, gateway(redis, events=events) as client:
        waiting, other = await submit(client), await submit(client)
        first, second = await receive(consumer, 2)
        entries = chunks(first.job.job_id)
        damage(entries)
        with redis.client() as raw, capture_logs() as logs:
            for entry in entries:
                raw.xadd(reply_key(client.name), entry)  # type: ignore[arg-type]
            if not at_once:
                await consumer.complete(second, make_result(second.job))
            with pytest.raises(JobError, match="engine_failed"):
                await asyncio.wait_for(waiting, 2)
        assert [line["event"] for line in logs] == ["reply_incomplete"]
        assert events.seen["unreadable_reply"] == 1
        if at_once:
            await consumer.complete(second, make_result(second.job))
        await asyncio.wait_for(other, 2)
        await consumer.complete(first, make_result(first.job))


async def test_part_of_no_number_of_its_answer_is_told_of_even_as_the_first_of_all(
    redis: RedisServer,
) -> None:
    events = Events()
    async with worker(redis) as consumer, gateway(redis, events=events) as client:
        waiting = await submit(client)
        (delivery,) = await receive(consumer)
        frame = encode_outcome(delivery.job.job_id, JobError("invalid"))
        head = ("j", delivery.job.job_id, "i", "1", "n", "1", "b", QUEUED, "d", frame)
        client._mailbox._assembly.clear()  # as where Redis lost its memory
        with redis.client() as raw:
            raw.execute_command("XADD", reply_key(client.name), "*", *head)
        with pytest.raises(JobError, match="engine_failed"):
            await asyncio.wait_for(waiting, 2)
        assert events.seen["unreadable_reply"] == 1
        await consumer.complete(delivery, make_result(delivery.job))


def test_answer_that_is_broken_a_second_time_is_told_of_again() -> None:
    assembly = Assembly()
    for _ in range(2):
        for entry in (chunks("a")[0], *chunks("a")[2:]):
            assembly.add(flat(entry))
        assert assembly.take_broken() == ["a"]


async def test_answer_of_which_redis_lost_the_rest_is_not_broken(
    redis: RedisServer, wait_until: WaitUntil
) -> None:
    """Its job is submitted again."""
    events = Events()
    async with worker(redis) as consumer, gateway(redis, events=events) as client:
        waiting = await submit(client)
        (delivery,) = await receive(consumer)
        with redis.client() as raw:
            for entry in chunks(delivery.job.job_id)[:2]:
                raw.xadd(reply_key(client.name), entry)  # type: ignore[arg-type]
        await wait_until(lambda: len(client._mailbox._assembly._parts) == 2)
        redis.call("FLUSHALL")
        async with answering(consumer), asyncio.timeout(5):
            await waiting
        assert events.seen["unreadable_reply"] == 0


def test_answers_are_not_mixed() -> None:
    assembly = Assembly()
    assembly.add(flat(chunks("a")[0]))
    assert assembly.add(flat(chunks("b")[1])) is None
    assert assembly.take_broken() == ["a", "b"]
    assert not any(assembly.add(flat(entry)) for entry in (*chunks("a")[1:], *chunks("b")[2:]))


def test_beginning_of_another_answer_ends_the_one_before() -> None:
    assembly = Assembly()
    for entry in chunks("a")[:2]:
        assembly.add(flat(entry))
    whole = [assembly.add(flat(entry)) for entry in chunks("b")]
    assert [reply.job_id for reply in whole if reply] == ["b"]
    assert whole[-1] is not None
    assert whole[-1].frame == b"".join(entry[b"d"] for entry in chunks("b"))
    assert assembly.take_broken() == ["a"]


def test_end_of_an_answer_whose_beginning_was_read_before_breaks_nothing() -> None:
    """A gateway that meets another memory of Redis reads its stream from there."""
    assembly = Assembly()
    for entry in chunks("a")[:2]:
        assembly.add(flat(entry))
    assembly.clear()
    for entry in chunks("a")[2:]:
        assert assembly.add(flat(entry)) is None
    assert assembly.take_broken() == []


def flat(entry: dict[bytes, bytes]) -> list[bytes]:
    return [word for pair in entry.items() for word in pair]
