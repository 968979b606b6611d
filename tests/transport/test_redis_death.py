"""Workers and gateways that die, are stopped, or leave; jobs that kill."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from redis_keyspace import left_behind
from redis_server import RedisServer
from redis_sides import (
    LEASE_S,
    NEVER_RENEWS,
    Events,
    answering,
    gateway,
    receive,
    submit,
    worker,
)
from transport_jobs import MODEL, make_announcement, make_job, make_result

from transport.messages import JobError
from transport.redis.consumer import RedisJobConsumer
from transport.redis.keys import model_keys

WaitUntil = Callable[..., Awaitable[None]]
QUEUE = model_keys(MODEL).queues[0]


def consumers(redis: RedisServer) -> set[str]:
    with redis.client() as direct:
        return {row["name"].decode() for row in direct.xinfo_consumers(QUEUE, "w")}


async def test_job_is_redelivered_when_its_worker_fell_silent(redis: RedisServer) -> None:
    events = Events()
    async with (
        worker(redis, "dead", NEVER_RENEWS) as dead,
        worker(redis, "heir", events=events) as heir,
        gateway(redis) as client,
    ):
        task = await submit(client)
        (first,) = await receive(dead)
        (second,) = await receive(heir)
        assert (first.attempt, second.attempt) == (1, 2)
        assert first.job.job_id == second.job.job_id
        await heir.complete(second, make_result(second.job, 2.0))
        assert (await task).rows[0, 0] == 2.0
        assert events.seen["redelivered"] == 1
    assert not left_behind(redis)


async def test_answer_of_a_worker_that_wakes_too_late_is_dropped(redis: RedisServer) -> None:
    asleep, awake = Events(), Events()
    async with (
        worker(redis, "asleep", NEVER_RENEWS, asleep) as late,
        worker(redis, "heir") as heir,
        gateway(redis, events=awake) as client,
    ):
        task = await submit(client)
        (first,) = await receive(late)
        (second,) = await receive(heir)
        await heir.complete(second, make_result(second.job, 2.0))
        await late.complete(first, make_result(first.job, 1.0))
        assert (await task).rows[0, 0] == 2.0
        assert asleep.seen == {"late_finish": 1}
        assert awake.seen == {}
    assert not left_behind(redis)


async def test_job_of_a_live_worker_is_nobody_elses(redis: RedisServer) -> None:
    async with (
        worker(redis, "slow") as slow,
        worker(redis, "idle") as idle,
        gateway(redis) as client,
    ):
        task = await submit(client)
        (delivery,) = await receive(slow)
        until_s = asyncio.get_running_loop().time() + 4 * LEASE_S
        while asyncio.get_running_loop().time() < until_s:
            assert await idle.receive(MODEL, 1_000, 0.02) == []
        await slow.complete(delivery, make_result(delivery.job))
        await task


async def test_worker_that_stood_still_does_not_take_its_own_jobs_again(
    redis: RedisServer,
) -> None:
    events = Events()
    async with worker(redis, "w1", NEVER_RENEWS, events) as still, gateway(redis) as client:
        task = await submit(client)
        (delivery,) = await receive(still)
        until_s = asyncio.get_running_loop().time() + 2 * LEASE_S
        while asyncio.get_running_loop().time() < until_s:
            assert await still.receive(MODEL, 1_000, 0.02) == []
        await still.complete(delivery, make_result(delivery.job))
        await task
    assert events.seen == {}


async def test_many_jobs_of_a_dead_worker_are_spread_over_the_others(redis: RedisServer) -> None:
    async with (
        worker(redis, "dead", NEVER_RENEWS) as dead,
        worker(redis, "a") as a,
        worker(redis, "b") as b,
        gateway(redis) as client,
    ):
        tasks = [await submit(client) for _ in range(20)]
        await receive(dead, 20)
        taken: dict[str, int] = {"a": 0, "b": 0}
        async with asyncio.timeout(10):
            while sum(taken.values()) < 20:
                for heir in (a, b):
                    for delivery in await heir.receive(MODEL, 1_000, 0.02):
                        taken[heir.name] += 1
                        await heir.complete(delivery, make_result(delivery.job))
        await asyncio.gather(*tasks)
        assert min(taken.values()) >= 4


async def test_poison_is_given_up_with_an_error_for_its_caller_alone(
    redis: RedisServer, wait_until: WaitUntil
) -> None:
    events = Events()
    async with gateway(redis) as client, worker(redis, "heir", events=events) as heir:
        async with worker(redis, "w1", NEVER_RENEWS) as first:
            poison = await submit(client, make_job((5,), job_id="poison"))
            await receive(first)
            async with worker(redis, "w2", NEVER_RENEWS) as second:
                (again,) = await receive(second)
                assert await second.begin(again)
                async with answering(heir):
                    fine = asyncio.create_task(client.submit(make_job()))
                    with pytest.raises(JobError, match="poison"):
                        await poison
                    assert (await fine).worker == "w1"
                    await wait_until(lambda: events.seen["dead_lettered"] == 1)
        with redis.client() as direct:
            ((_, letter),) = direct.xrange(model_keys(MODEL).dead_letters)
        assert letter[b"job"] == b"poison"
        assert (letter[b"tokens"], letter[b"deliveries"]) == (b"5", b"3")
        assert set(letter) == {b"job", b"tokens", b"deliveries", b"lane", b"sha256"}
    assert not left_behind(redis)


async def test_job_that_was_handed_back_counts_as_never_delivered(redis: RedisServer) -> None:
    async with worker(redis, "other") as other, gateway(redis) as client:
        async with worker(redis, "leaving") as leaving:
            task = await submit(client)
            delivery = await receive(leaving)
            await leaving.hand_back(delivery)
        assert consumers(redis) == {"leaving"}  # the entry is still its own
        (again,) = await receive(other)
        assert again.attempt == 1
        await other.complete(again, make_result(again.job))
        await task
    assert not left_behind(redis)


async def test_jobs_that_a_leaving_worker_claimed_are_anothers_at_once(redis: RedisServer) -> None:
    async with (
        worker(redis, "dead", NEVER_RENEWS) as dead,
        worker(redis, "leaving") as leaving,
        gateway(redis) as client,
    ):
        waiting = [await submit(client, make_job((3,))) for _ in range(3)]
        await receive(dead, 3)
        async with asyncio.timeout(5):
            while not (running := await leaving.receive(MODEL, 3, 0.01)):
                pass
        async with worker(redis, "heir", NEVER_RENEWS) as heir:
            assert await heir.receive(MODEL, 1_000, 0.05) == []
            await leaving.release(MODEL)
            again = await receive(heir, 2)
            assert [delivery.attempt for delivery in again] == [2, 2]
            assert await leaving.renew(running) == running  # what it runs is still its own
            for consumer, deliveries in ((heir, again), (leaving, running)):
                for delivery in deliveries:
                    await consumer.complete(delivery, make_result(delivery.job))
            await asyncio.gather(*waiting)
    assert not left_behind(redis)


async def test_worker_that_leaves_empty_handed_leaves_no_consumer(redis: RedisServer) -> None:
    async with worker(redis, "stays") as stays, gateway(redis) as client:
        async with worker(redis, "leaving") as leaving:
            for consumer in (stays, leaving):
                task = await submit(client)
                (delivery,) = await receive(consumer)
                await consumer.complete(delivery, make_result(delivery.job))
                await task
            assert consumers(redis) == {"stays", "leaving"}
        assert consumers(redis) == {"stays"}


async def test_consumer_of_a_dead_worker_is_reaped_once_it_holds_nothing(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transport.redis.consumer.DEAD_AFTER_MS", 50)
    async with (
        gateway(redis) as client,
        worker(redis, "heir") as heir,
        worker(redis, "dead", NEVER_RENEWS) as dead,
    ):
        task = await submit(client)
        await receive(dead)
        redis.call("HSET", model_keys(MODEL).heartbeats, "dead", "1 ")  # a day and more ago
        await _reap(heir)
        assert "dead" in consumers(redis)
        (delivery,) = await receive(heir)
        await _reap(heir)
        assert consumers(redis) == {"heir"}
        await heir.complete(delivery, make_result(delivery.job))
        await task


async def _reap(consumer: RedisJobConsumer) -> None:
    consumer._reap_at_s.clear()
    await consumer.announce(make_announcement())


async def test_jobs_of_a_dead_gateway_leave_nothing(redis: RedisServer) -> None:
    async with worker(redis) as consumer, gateway(redis) as client:
        tasks = [await submit(client) for _ in range(3)]
        await client._mailbox.stop()  # as kill -9: nothing is read or taken back
        redis.call("DEL", f"florilege:rep:{client.name}")  # a minute later
        async with answering(consumer):
            async with asyncio.timeout(10):
                while redis.call("XLEN", QUEUE) != "0":
                    await asyncio.sleep(0.001)
        assert not left_behind(redis)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_job_taken_back_while_it_runs_is_no_longer_wanted(redis: RedisServer) -> None:
    async with worker(redis) as consumer, gateway(redis) as client:
        task = await submit(client)
        deliveries = await receive(consumer)
        assert await consumer.renew(deliveries) == deliveries
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await consumer.renew(deliveries) == []
    assert not left_behind(redis)
