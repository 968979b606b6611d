"""What was delivered before may have ended a process: it runs with nothing beside it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
from running_worker import RunningWorker

from transport.protocols import Delivery

AGAIN = 500  # a job that begins with this id, or a higher one, is delivered a second time
WaitUntil = Callable[..., Awaitable[None]]


@pytest.fixture
async def running(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningWorker]:
    async with RunningWorker.ready() as running:
        receive = running.transport.receive

        async def receive_again(model: str, max_tokens: int, wait_s: float) -> list[Delivery]:
            deliveries = await receive(model, max_tokens, wait_s)
            return [replace(d, attempt=1 + (d.job.input_ids[0] >= AGAIN)) for d in deliveries]

        monkeypatch.setattr(running.transport, "receive", receive_again)
        yield running


def batches(running: RunningWorker) -> list[list[int]]:
    return [batch.input_ids.tolist() for batch in running.engine.batches]


async def test_second_delivery_shares_no_batch(
    running: RunningWorker, wait_until: WaitUntil
) -> None:
    running.engine.gate.clear()
    busy = [asyncio.create_task(running.submit(*[i] * 90)) for i in (1, 2)]
    await wait_until(lambda: len(running.worker._batches) == 2)
    running.engine.batches.clear()
    later = [asyncio.create_task(running.submit(i)) for i in (3, 4, AGAIN, AGAIN + 1, 5, 6)]
    await asyncio.sleep(0)
    running.engine.gate.set()
    await asyncio.gather(*busy, *later)
    assert batches(running)[-4:] == [[3, 4], [AGAIN], [AGAIN + 1], [5, 6]]


async def test_nothing_else_is_in_flight_beside_a_second_delivery(
    running: RunningWorker, wait_until: WaitUntil
) -> None:
    running.engine.gate.clear()
    first = asyncio.create_task(running.submit(1))
    await wait_until(lambda: batches(running) == [[1]])
    again = asyncio.create_task(running.submit(AGAIN))
    await wait_until(lambda: len(running.worker._batches) == 2)
    assert running.thread._running
    assert batches(running) == [[1]]
    running.engine.gate.set()
    await asyncio.gather(first, again)
    running.engine.gate.clear()
    again = asyncio.create_task(running.submit(AGAIN))
    await wait_until(lambda: batches(running)[2:] == [[AGAIN]])
    last = asyncio.create_task(running.submit(2))
    await wait_until(lambda: len(running.worker._batches) == 2)
    assert len(running.thread._running) == 1
    running.engine.gate.set()
    await asyncio.gather(again, last)
    assert batches(running)[2:] == [[AGAIN], [2]]


async def test_second_attempt_is_counted_before_it_runs_and_a_first_is_not(
    running: RunningWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, begun = running.transport.begin, []

    async def noted(delivery: Delivery) -> bool:
        begun.append((delivery.job.input_ids.tolist(), batches(running)))
        return await begin(delivery)

    monkeypatch.setattr(running.transport, "begin", noted)
    await running.submit(1)
    await running.submit(AGAIN)
    assert begun == [([AGAIN], [[1]])]
    assert batches(running) == [[1], [AGAIN]]


async def test_second_attempt_that_nobody_wants_is_dropped_and_the_worker_goes_on(
    running: RunningWorker, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = []

    async def refuse(delivery: Delivery) -> bool:
        refused.append(delivery.job.input_ids[0])
        return False

    await running.submit(1)
    monkeypatch.setattr(running.transport, "begin", refuse)
    unwanted = [asyncio.create_task(running.submit(AGAIN + i)) for i in range(3)]
    await wait_until(lambda: len(refused) == 3)  # more than steps in flight: each left its room
    result = await running.submit(2)
    assert result.rows[0, 2] == 2
    assert batches(running) == [[1], [2]]
    assert not any(task.done() for task in unwanted)
    for task in unwanted:
        task.cancel()
    await asyncio.gather(*unwanted, return_exceptions=True)
