"""A worker over the in-memory transport with a fake engine."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import numpy as np
import pytest
from fake_engine import BAD_ID, EXIT_ID, NAN_ID
from running_worker import RunningWorker
from transport_jobs import MODEL, make_job

from transport.messages import Job, JobError
from transport.protocols import Delivery

WaitUntil = Callable[..., Awaitable[None]]


async def test_row_of_every_sequence_comes_back_in_order(running: RunningWorker) -> None:
    result = await running.submit(5, 6, 7, 9, lengths=(1, 3))
    np.testing.assert_array_equal(result.rows[:, :3], [[5, 1, 5], [22, 3, 6]])
    np.testing.assert_array_equal(result.row_offsets, [0, 1, 2])
    assert result.failed == ()
    assert result.timings["infer"] == pytest.approx(0.004)
    assert result.timings["queue"] >= 0


async def test_jobs_that_wait_share_a_batch_and_keep_their_own_rows(
    running: RunningWorker, wait_until: WaitUntil
) -> None:
    running.engine.gate.clear()
    first = [asyncio.create_task(running.submit(1)), asyncio.create_task(running.submit(2))]
    await wait_until(lambda: running.engine.batches)
    later = [asyncio.create_task(running.submit(i, i)) for i in range(10, 30)]
    await asyncio.sleep(0)
    running.engine.gate.set()
    results = await asyncio.gather(*first, *later)
    assert [r.rows[0, 2] for r in results] == [1, 2, *range(10, 30)]
    assert len(running.engine.batches) <= 4


async def test_types_reach_the_engine_even_beside_a_job_without(running: RunningWorker) -> None:
    typed = running.submit(1, 2, type_ids=np.array([0, 1], np.uint8))
    plain = running.submit(3, 4)
    results = await asyncio.gather(typed, plain)
    assert [r.rows[0, 3] for r in results] == [1, 0]


async def test_two_steps_are_in_flight_and_no_more(
    running: RunningWorker, wait_until: WaitUntil
) -> None:
    running.engine.gate.clear()
    tasks = []
    for i in range(6):
        tasks.append(asyncio.create_task(running.submit(*[i] * 90)))
        await asyncio.sleep(0)
    await wait_until(lambda: len(running.worker._batches) == 2)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(running.worker._batches) == 2
    assert (await running.transport.backlog(MODEL, "online")).jobs == 6
    running.engine.gate.set()
    await asyncio.gather(*tasks)


async def test_sequence_that_raises_fails_alone(running: RunningWorker) -> None:
    ids = [1, 2, 3, BAD_ID, 5, 6, 7]
    innocents = [asyncio.create_task(running.submit(i)) for i in (11, 12, 13)]
    result = await running.submit(*ids, lengths=(1,) * 7)
    assert result.failed == ((3, "engine_failed"),)
    np.testing.assert_array_equal(result.rows[:, 2], [1, 2, 3, 5, 6, 7])
    np.testing.assert_array_equal(result.row_offsets, [0, 1, 2, 3, 3, 4, 5, 6])
    assert [r.rows[0, 2] for r in await asyncio.gather(*innocents)] == [11, 12, 13]
    assert running.value("batch_bisect_total") == 1


async def test_batch_in_which_every_sequence_raises_is_answered(running: RunningWorker) -> None:
    result = await running.submit(BAD_ID, BAD_ID, lengths=(1, 1))
    assert [code for _, code in result.failed] == ["engine_failed"] * 2
    assert result.rows.shape[0] == 0


async def test_row_that_is_not_finite_fails_alone_and_runs_once(
    running: RunningWorker,
) -> None:
    result = await running.submit(1, NAN_ID, 3, lengths=(1, 1, 1))
    assert result.failed == ((1, "non_finite"),)
    assert np.isfinite(result.rows).all()
    assert len(running.engine.batches) == 1
    assert running.value("non_finite_total") == 1


async def test_cancelled_job_never_reaches_the_engine(
    running: RunningWorker, wait_until: WaitUntil
) -> None:
    running.engine.gate.clear()
    busy = [asyncio.create_task(running.submit(*[i] * 90)) for i in (1, 2)]
    await wait_until(lambda: len(running.worker._batches) == 2)
    unwanted = asyncio.create_task(running.submit(77))
    await asyncio.sleep(0)
    unwanted.cancel()
    running.engine.gate.set()
    await asyncio.gather(*busy)
    await running.submit(78)
    assert all(77 not in batch.input_ids for batch in running.engine.batches)
    assert running.value("cancelled_total") == 1


async def test_expired_job_never_reaches_the_engine(
    running: RunningWorker, wait_until: WaitUntil
) -> None:
    running.engine.gate.clear()
    busy = [asyncio.create_task(running.submit(*[i] * 90)) for i in (1, 2)]
    await wait_until(lambda: len(running.worker._batches) == 2)
    with pytest.raises(JobError, match="deadline"):
        await running.submit(77, budget_ms=5)
    running.engine.gate.set()
    await asyncio.gather(*busy)
    await running.submit(78)
    assert all(77 not in batch.input_ids for batch in running.engine.batches)
    assert running.value("expired_total") == 1


async def test_kind_the_engine_does_not_know_is_invalid(running: RunningWorker) -> None:
    with pytest.raises(JobError, match="invalid"):
        await running.submit(1, kind="sparse")


async def test_drain_finishes_the_batches_that_run_and_hands_the_rest_back(
    running: RunningWorker, wait_until: WaitUntil
) -> None:
    running.engine.gate.clear()
    begun = [asyncio.create_task(running.submit(*[i] * 60)) for i in range(2)]
    await wait_until(lambda: len(running.worker._batches) == 2)
    running.worker._pending = await prefetch(running, 7, 8)
    left = asyncio.create_task(running.submit(9))
    running.worker.drain()
    running.engine.gate.set()
    await asyncio.gather(*begun)
    await asyncio.wait_for(running.task, 5)
    assert not left.done()
    again = await running.transport.receive(MODEL, 100, 1.0)
    assert [d.job.input_ids[0] for d in again] == [7, 8, 9]
    assert [d.attempt for d in again] == [1, 1, 1]
    running.transport.fail("engine_failed")
    await asyncio.gather(left, return_exceptions=True)


async def test_drain_hands_back_while_batches_still_run(
    running: RunningWorker, wait_until: WaitUntil
) -> None:
    running.engine.gate.clear()
    begun = [asyncio.create_task(running.submit(*[i] * 60)) for i in range(2)]
    await wait_until(lambda: len(running.worker._batches) == 2)
    running.worker._pending = await prefetch(running, 7, 8)
    running.worker.drain()
    again = await running.transport.receive(MODEL, 100, 1.0)
    assert [d.job.input_ids[0] for d in again] == [7, 8]
    assert not any(task.done() for task in begun)
    running.engine.gate.set()
    await asyncio.gather(*begun)
    await asyncio.wait_for(running.task, 5)
    assert await running.transport.receive(MODEL, 100, 0.0) == []  # none was handed back twice
    running.transport.fail("engine_failed")


async def prefetch(running: RunningWorker, *ids: int) -> list[Delivery]:
    """Jobs as if the worker had received them while it had no room."""
    for i in ids:
        task = asyncio.create_task(running.submit(i))
        task.add_done_callback(lambda done: done.exception())  # nobody waits for it
    await asyncio.sleep(0)
    return await running.transport.receive(MODEL, 100, 1.0)


async def test_thread_that_ends_leaves_its_jobs_to_the_supervisor(running: RunningWorker) -> None:
    job = asyncio.create_task(running.submit(EXIT_ID))
    assert await running.thread.died == "the engine's thread ended with SystemExit"
    await asyncio.wait_for(running.task, 5)
    assert not job.done()
    running.transport.fail("engine_failed")
    with pytest.raises(JobError, match="engine_failed"):
        await job


async def test_step_that_never_ends_trips_the_watchdog(running: RunningWorker) -> None:
    running.engine.gate.clear()
    job = asyncio.create_task(running.submit(1))
    assert "no step finished" in await running.thread.died
    await asyncio.wait_for(running.task, 5)
    assert not job.done()
    running.transport.fail("engine_failed")
    with pytest.raises(JobError, match="engine_failed"):
        await job


async def test_batch_lost_to_a_defect_is_death_and_not_silence(running: RunningWorker) -> None:
    def broken(*_: object) -> None:
        raise KeyError

    running.worker._record = broken  # type: ignore[method-assign, assignment]
    job = asyncio.create_task(running.submit(1))
    assert await running.thread.died == "a task of the worker failed: KeyError"
    await asyncio.wait_for(running.task, 5)
    running.transport.fail("engine_failed")
    with pytest.raises(JobError, match="engine_failed"):
        await job


async def test_worker_that_nobody_hears_of_any_more_is_dead() -> None:
    running = RunningWorker(heartbeat_s=0.005)

    def broken() -> None:
        raise LookupError

    running.engine.stats = broken  # type: ignore[method-assign, assignment]
    assert await running.thread.died == "a task of the worker failed: LookupError"
    await asyncio.wait_for(running.task, 5)


async def test_pause_of_the_whole_process_does_not_trip_the_watchdog(
    running: RunningWorker,
) -> None:
    running.engine.gate.clear()
    job = asyncio.create_task(running.submit(1))
    await asyncio.sleep(0.06)
    time.sleep(0.5)  # noqa: ASYNC251  as SIGSTOP does: the loop stands still too
    await asyncio.sleep(0)
    running.engine.gate.set()
    await job
    assert not running.thread.died.done()


async def test_idle_worker_does_not_trip_the_watchdog(running: RunningWorker) -> None:
    await running.submit(1)
    await asyncio.sleep(0.5)  # more than two watchdog periods: the passing of time is the subject
    assert not running.thread.died.done()
    await running.submit(2)


async def test_batches_and_padding_are_counted(running: RunningWorker) -> None:
    await running.submit(1, 2, 3)
    assert running.value("batch_tokens_sum") == 4
    assert running.value("padding_tokens_total") == 1
    assert running.value("batch_size_count") == 1


async def test_measured_speed_is_announced_from_half_full_batches_only() -> None:
    running = RunningWorker(heartbeat_s=0.005)
    while MODEL not in await running.transport.models():
        await asyncio.sleep(0)
    await running.submit(*[1] * 49)
    await asyncio.sleep(0.02)
    assert (await running.transport.backlog(MODEL, "online")).tokens_per_s is None
    await running.submit(*[1] * 50)
    async with asyncio.timeout(5):
        while (await running.transport.backlog(MODEL, "online")).tokens_per_s is None:
            await asyncio.sleep(0.001)
    backlog = await running.transport.backlog(MODEL, "online")
    assert backlog.tokens_per_s == pytest.approx(1000)
    running.worker.drain()
    await running.task
    running.thread.stop()


def test_job_type_is_what_the_batcher_expects() -> None:
    job: Job = make_job((2, 3))
    assert (job.tokens, job.sequences) == (5, 2)
