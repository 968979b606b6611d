"""The promises of transport/protocols.py, held by every transport alike."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np
import pytest
from redis_server import RedisServer
from transport_jobs import MODEL, make_announcement, make_job, make_result

from transport.memory import MemoryTransport
from transport.messages import Job, JobError, JobResult
from transport.protocols import Delivery, JobClient, JobConsumer
from transport.redis.client import ClientConfig, RedisJobClient
from transport.redis.connections import RedisConfig
from transport.redis.consumer import ConsumerConfig, RedisJobConsumer
from transport.redis.intake import IntakeConfig

BULK_AGE_S = 1.0  # a busy host takes less from the first job to the last
WaitUntil = Callable[..., Awaitable[None]]


@pytest.fixture(params=["memory", "redis"])
async def sides(
    request: pytest.FixtureRequest, redis: RedisServer
) -> AsyncIterator[tuple[JobClient, JobConsumer]]:
    """A client and a consumer of one transport, the model announced."""
    if request.param == "memory":
        transport = MemoryTransport(bulk_age_s=BULK_AGE_S)
        await transport.announce(make_announcement())
        yield transport, transport
        return
    intake = IntakeConfig(bulk_age_s=BULK_AGE_S)
    consumer = RedisJobConsumer(RedisConfig(redis.url), "w1", ConsumerConfig(intake))
    client = RedisJobClient(RedisConfig(redis.url), ClientConfig(discovery_s=0.01))
    await consumer.start()
    await consumer.announce(make_announcement())
    await client.start()
    yield client, consumer
    await client.close()
    await consumer.close()


@pytest.fixture
def client(sides: tuple[JobClient, JobConsumer]) -> JobClient:
    return sides[0]


@pytest.fixture
def consumer(sides: tuple[JobClient, JobConsumer]) -> JobConsumer:
    return sides[1]


async def submit(client: JobClient, job: Job) -> asyncio.Task[JobResult]:
    """Submit in the background; returns once the job waits."""
    before = (await client.backlog(job.model, "bulk")).tokens
    task = asyncio.create_task(client.submit(job))
    while not task.done() and (await client.backlog(job.model, "bulk")).tokens == before:
        await asyncio.sleep(0)
    return task


async def receive_one(consumer: JobConsumer) -> Delivery:
    (delivery,) = await consumer.receive(MODEL, 1, 5.0)
    return delivery


async def test_result_reaches_the_submitter_unchanged(
    client: JobClient, consumer: JobConsumer
) -> None:
    job = make_job((2, 5), type_ids=np.arange(7, dtype=np.uint8), traceparent="00-a-b-01")
    task = await submit(client, job)
    delivery = await receive_one(consumer)
    assert delivery.job.job_id == job.job_id
    assert delivery.job.traceparent == job.traceparent
    np.testing.assert_array_equal(delivery.job.input_ids, job.input_ids)
    np.testing.assert_array_equal(delivery.job.type_ids, job.type_ids)
    answer = make_result(job, 0.25)
    await consumer.complete(delivery, answer)
    result = await task
    np.testing.assert_array_equal(result.rows, answer.rows)
    assert result.rows.dtype == np.dtype("<f4")
    assert result.worker == "w1"


async def test_error_reaches_the_submitter_with_its_code(
    client: JobClient, consumer: JobConsumer
) -> None:
    task = await submit(client, make_job())
    await consumer.complete(await receive_one(consumer), JobError("overloaded", retry_after_s=2.5))
    with pytest.raises(JobError) as caught:
        await task
    assert (caught.value.code, caught.value.retry_after_s) == ("overloaded", 2.5)


async def test_jobs_arrive_in_the_order_of_submission(
    client: JobClient, consumer: JobConsumer
) -> None:
    jobs = [make_job() for _ in range(5)]
    tasks = [await submit(client, job) for job in jobs]
    deliveries = await consumer.receive(MODEL, 1_000, 5.0)
    assert [d.job.job_id for d in deliveries] == [j.job_id for j in jobs]
    for delivery in deliveries:
        await consumer.complete(delivery, make_result(delivery.job))
    await asyncio.gather(*tasks)


async def test_answers_in_any_order_reach_their_own_submitters(
    client: JobClient, consumer: JobConsumer
) -> None:
    tasks = [await submit(client, make_job()) for _ in range(8)]
    deliveries = await consumer.receive(MODEL, 1_000, 5.0)
    for i, delivery in reversed(list(enumerate(deliveries))):
        await consumer.complete(delivery, make_result(delivery.job, float(i)))
    results = await asyncio.gather(*tasks)
    assert [r.rows[0, 0] for r in results] == list(range(8))


async def test_receive_stops_before_the_token_bound(
    client: JobClient, consumer: JobConsumer
) -> None:
    tasks = [await submit(client, make_job((40,))) for _ in range(3)]
    first = await consumer.receive(MODEL, 100, 5.0)
    second = await consumer.receive(MODEL, 100, 5.0)
    assert [len(first), len(second)] == [2, 1]
    for delivery in first + second:
        await consumer.complete(delivery, make_result(delivery.job))
    await asyncio.gather(*tasks)


async def test_online_jobs_go_before_bulk_jobs(client: JobClient, consumer: JobConsumer) -> None:
    tasks = [
        await submit(client, make_job((5,), lane="bulk", job_id="b1")),
        await submit(client, make_job((5,), lane="bulk", job_id="b2")),
        await submit(client, make_job((5,), job_id="o1")),
        await submit(client, make_job((5,), job_id="o2")),
    ]
    deliveries = await consumer.receive(MODEL, 1_000, 5.0)
    assert [d.job.job_id for d in deliveries] == ["o1", "o2", "b1", "b2"]
    for delivery in deliveries:
        await consumer.complete(delivery, make_result(delivery.job))
    await asyncio.gather(*tasks)


async def test_bulk_job_is_not_kept_waiting_beyond_its_age(
    client: JobClient, consumer: JobConsumer
) -> None:
    tasks = [await submit(client, make_job((5,), lane="bulk", job_id="old"))]
    await asyncio.sleep(BULK_AGE_S * 1.5)  # the passing of time is the subject
    tasks.append(await submit(client, make_job((5,), job_id="new")))
    deliveries = await consumer.receive(MODEL, 1_000, 5.0)
    assert [d.job.job_id for d in deliveries] == ["old", "new"]
    for delivery in deliveries:
        await consumer.complete(delivery, make_result(delivery.job))
    await asyncio.gather(*tasks)


async def test_aged_bulk_has_one_turn_and_then_online_goes_on(
    client: JobClient, consumer: JobConsumer
) -> None:
    tasks = [await submit(client, make_job((50,), lane="bulk", job_id=f"b{i}")) for i in range(4)]
    await asyncio.sleep(BULK_AGE_S * 1.5)  # the passing of time is the subject
    tasks += [await submit(client, make_job((50,), job_id=f"o{i}")) for i in range(3)]
    order = []
    for _ in range(7):
        (delivery,) = await consumer.receive(MODEL, 50, 5.0)
        order.append(delivery.job.job_id)
        await consumer.complete(delivery, make_result(delivery.job))
    await asyncio.gather(*tasks)
    assert order == ["b0", "o0", "o1", "o2", "b1", "b2", "b3"]


async def test_job_larger_than_the_bound_is_received_alone(
    client: JobClient, consumer: JobConsumer
) -> None:
    tasks = [await submit(client, make_job((500,))), await submit(client, make_job())]
    (delivery,) = await consumer.receive(MODEL, 100, 5.0)
    assert delivery.job.tokens == 500
    await consumer.complete(delivery, make_result(delivery.job))
    last = await receive_one(consumer)
    await consumer.complete(last, make_result(last.job))
    await asyncio.gather(*tasks)


async def test_receive_returns_empty_when_nothing_arrives(consumer: JobConsumer) -> None:
    assert await consumer.receive(MODEL, 100, 0.01) == []
    assert await consumer.receive(MODEL, 100, 0.0) == []


async def test_waiting_receiver_wakes_for_a_job(client: JobClient, consumer: JobConsumer) -> None:
    receiving = asyncio.create_task(consumer.receive(MODEL, 100, 30.0))
    await asyncio.sleep(0)
    task = await submit(client, make_job())
    (delivery,) = await receiving
    await consumer.complete(delivery, make_result(delivery.job))
    await task


async def test_cancelled_job_is_not_delivered(client: JobClient, consumer: JobConsumer) -> None:
    cancelled = await submit(client, make_job())
    kept_job = make_job()
    kept = await submit(client, kept_job)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    deliveries = await consumer.renew(await consumer.receive(MODEL, 1_000, 5.0))
    assert [d.job.job_id for d in deliveries] == [kept_job.job_id]
    await consumer.complete(deliveries[0], make_result(kept_job))
    await kept


async def test_job_cancelled_after_delivery_is_no_longer_wanted(
    client: JobClient, consumer: JobConsumer
) -> None:
    task = await submit(client, make_job())
    delivery = await receive_one(consumer)
    assert await consumer.renew([delivery]) == [delivery]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await consumer.renew([delivery]) == []
    await consumer.complete(delivery, make_result(delivery.job))  # late, and harmless


async def test_deadline_fails_a_job_that_nobody_answers(client: JobClient) -> None:
    with pytest.raises(JobError) as caught:
        await client.submit(make_job(budget_ms=20))
    assert caught.value.code == "deadline"


async def test_second_answer_is_dropped(client: JobClient, consumer: JobConsumer) -> None:
    task = await submit(client, make_job())
    delivery = await receive_one(consumer)
    await consumer.complete(delivery, make_result(delivery.job, 1.0))
    await consumer.complete(delivery, make_result(delivery.job, 2.0))
    assert (await task).rows[0, 0] == 1.0


async def test_unannounced_model_is_not_ready(client: JobClient) -> None:
    with pytest.raises(JobError) as caught:
        await client.submit(make_job(model="other"))
    assert caught.value.code == "not_ready"


async def test_backlog_counts_tokens_until_they_are_answered(
    client: JobClient, consumer: JobConsumer
) -> None:
    task = await submit(client, make_job((7,)))
    delivery = await receive_one(consumer)
    assert (await client.backlog(MODEL, "online")).tokens == 7
    await consumer.complete(delivery, make_result(delivery.job))
    await task
    assert (await client.backlog(MODEL, "online")).tokens == 0


async def test_backlog_of_online_leaves_bulk_out(client: JobClient, consumer: JobConsumer) -> None:
    tasks = [
        await submit(client, make_job((5,), lane="bulk")),
        await submit(client, make_job((2,))),
    ]
    assert (await client.backlog(MODEL, "online")).tokens == 2
    assert (await client.backlog(MODEL, "bulk")).tokens == 7
    for delivery in await consumer.receive(MODEL, 1_000, 5.0):
        await consumer.complete(delivery, make_result(delivery.job))
    await asyncio.gather(*tasks)


async def test_oldest_job_ages_until_it_is_answered(
    client: JobClient, consumer: JobConsumer
) -> None:
    assert await client.oldest_s(MODEL) == {"online": 0, "bulk": 0}
    await submit(client, make_job((2,), lane="bulk"))
    await submit(client, make_job((2,), lane="bulk"))
    while (first_s := (await client.oldest_s(MODEL))["bulk"]) == 0:
        await asyncio.sleep(0)
    assert first_s < 10
    delivery = await receive_one(consumer)
    while (age_s := (await client.oldest_s(MODEL))["bulk"]) == first_s:
        await asyncio.sleep(0)
    assert age_s > first_s  # it runs, and is not answered
    await consumer.complete(delivery, make_result(delivery.job))
    second = await receive_one(consumer)
    await consumer.complete(second, make_result(second.job))
    while (await client.oldest_s(MODEL))["bulk"]:
        await asyncio.sleep(0)
    assert await client.oldest_s(MODEL) == {"online": 0, "bulk": 0}


async def test_cancelled_and_expired_jobs_leave_no_backlog(client: JobClient) -> None:
    task = await submit(client, make_job((9,)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(JobError):
        await client.submit(make_job((9,), budget_ms=1))
    assert (await client.backlog(MODEL, "bulk")).tokens == 0


async def test_announcement_reaches_the_gateway_whole(
    client: JobClient, consumer: JobConsumer
) -> None:
    announcement = make_announcement(tokens_per_s=1_500.0, revision="r2")
    await consumer.announce(announcement)
    async with asyncio.timeout(5):
        while (models := await client.models())[MODEL].spec.revision != "r2":
            await asyncio.sleep(0.001)
    assert models[MODEL].spec == announcement.spec
    assert models[MODEL].live_workers == client.live_workers(MODEL) == 1
    assert client.live_workers("none") == 0
    assert (await client.backlog(MODEL, "online")).tokens_per_s == 1_500.0
    digest = announcement.spec.tokenizer_sha256
    assert await client.tokenizer(digest) == announcement.tokenizer_json
    with pytest.raises(KeyError):
        await client.tokenizer("00" * 32)
