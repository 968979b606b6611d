"""What only the in-memory transport does."""

import asyncio

import pytest
from transport_jobs import MODEL, make_announcement, make_job, make_result

from transport.memory import MemoryTransport
from transport.messages import JobError


async def test_failed_transport_answers_what_waits_and_what_comes() -> None:
    transport = MemoryTransport()
    await transport.announce(make_announcement())
    waiting = [asyncio.create_task(transport.submit(make_job())) for _ in range(2)]
    await asyncio.sleep(0)
    (running,) = await transport.receive(MODEL, 1, 1.0)
    transport.fail("engine_failed")
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [o.code for o in outcomes if isinstance(o, JobError)] == ["engine_failed"] * 2
    with pytest.raises(JobError, match="engine_failed"):
        await transport.submit(make_job())
    await transport.complete(running, make_result(running.job))  # late, and harmless
    assert transport.outstanding == 0


async def test_cancelled_jobs_at_the_head_take_no_budget() -> None:
    transport = MemoryTransport()
    await transport.announce(make_announcement())
    tasks = [asyncio.create_task(transport.submit(make_job((50,)))) for _ in range(3)]
    await asyncio.sleep(0)
    for task in tasks[:2]:
        task.cancel()
    await asyncio.sleep(0)
    deliveries = await transport.receive(MODEL, 60, 0.0)
    assert len(deliveries) == 3  # so that the worker can count those it drops
    (delivery,) = await transport.renew(deliveries)
    await transport.complete(delivery, make_result(delivery.job))
    await tasks[2]
    assert transport.outstanding == 0
