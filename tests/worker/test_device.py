"""What a worker does about an accelerator: its memory, its loss, its idle time, its figures."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import numpy as np
import pytest
from fake_engine import FakeEngine
from running_worker import RunningWorker
from transport_jobs import MODEL, make_job

from engine.batch import Batch
from engine.errors import DeviceLost
from engine.lazy import DeviceStats, LazyTensor, StepOutput
from worker.engine_thread import EngineDied, EngineThread

WaitUntil = Callable[..., Awaitable[None]]
BATCH = Batch("embed", np.array([3], np.int32), np.array([1], np.int32))


async def submit_large(running: RunningWorker, sequences: int, tokens: int) -> np.ndarray:
    ids = np.arange(sequences * tokens, dtype=np.int32) % 600
    job = make_job((tokens,) * sequences, input_ids=ids)
    result = await running.transport.submit(job)
    assert result.failed == ()
    return result.rows


async def test_batch_that_memory_is_too_small_for_is_split_and_all_is_answered() -> None:
    async with RunningWorker.ready(max_batch_tokens=8192) as running:
        running.engine.memory_tokens = 2000
        rows = await submit_large(running, sequences=8, tokens=500)
        assert rows[:, 1].tolist() == [500.0] * 8
        assert running.value("oom_total") == 1


async def test_batches_are_half_as_large_each_time_memory_ran_out() -> None:
    async with RunningWorker.ready(max_batch_tokens=8192) as running:
        assert running.value("batch_budget_tokens") == 8192
        running.engine.memory_tokens = 3000
        await submit_large(running, sequences=8, tokens=1000)
        assert running.value("batch_budget_tokens") == 4096
        await submit_large(running, sequences=4, tokens=1000)
        assert running.value("batch_budget_tokens") == 2048
        assert running.value("oom_total") == 2
        running.engine.batches.clear()
        await asyncio.gather(*(submit_large(running, 1, 500) for _ in range(12)))
        assert max(batch.tokens for batch in running.engine.batches) <= 2048
        assert running.value("oom_total") == 2


async def test_budget_is_halved_once_however_small_the_parts_that_failed() -> None:
    async with RunningWorker.ready(max_batch_tokens=8192) as running:
        running.engine.memory_tokens = 0
        job = make_job((5,) * 4, input_ids=np.arange(20, dtype=np.int32))
        result = await running.transport.submit(job)
        assert [code for _, code in result.failed] == ["engine_failed"] * 4
        assert running.value("batch_budget_tokens") == 4096
        running.engine.memory_tokens = 1000
        await submit_large(running, 3, 300)


async def test_lost_device_is_the_end_and_answers_nothing(running: RunningWorker) -> None:
    running.engine.lost = True
    waiting = asyncio.create_task(running.submit(5))
    reason = await asyncio.wait_for(asyncio.shield(running.thread.died), 5)
    assert reason == "the device is lost: an illegal memory access was encountered"
    await asyncio.wait_for(asyncio.shield(running.task), 5)
    assert not waiting.done()  # its job is another worker's, or the supervisor's to fail
    waiting.cancel()


class LostLater:
    """A step that learns of the loss when the device is waited for."""

    def ready(self) -> bool:
        return True

    def wait(self):  # type: ignore[no-untyped-def]
        raise DeviceLost("uncorrectable ECC error")

    def add_done_callback(self, callback: Callable[[LazyTensor], None]) -> None:
        callback(self)


async def test_loss_that_is_learnt_of_behind_the_step_is_the_end_too() -> None:
    thread = EngineThread(watchdog_s=5)
    with pytest.raises(EngineDied, match="the device is lost: uncorrectable ECC error"):
        await thread.run(lambda _: LostLater(), BATCH)
    with pytest.raises(EngineDied):
        await thread.call(lambda: 1)
    thread.stop()


async def test_idle_time_is_used_piece_by_piece_until_nothing_is_left(
    wait_until: WaitUntil,
) -> None:
    thread, engine = EngineThread(watchdog_s=5, idle_after_s=0.001), FakeEngine()
    engine.idle_pieces = 5
    thread.when_idle(engine.idle)
    await wait_until(lambda: engine.idle_pieces == 0)
    await thread.run(engine.step, BATCH)
    engine.idle_pieces = 2  # after steps there may be more
    await wait_until(lambda: engine.idle_pieces == 0)
    thread.stop()


async def test_steps_do_not_wait_for_idle_work_that_has_not_begun() -> None:
    thread, engine = EngineThread(watchdog_s=5, idle_after_s=30), FakeEngine()
    engine.idle_pieces = 5
    thread.when_idle(engine.idle)
    for _ in range(20):
        await thread.run(engine.step, BATCH)
    assert engine.idle_pieces == 5
    thread.stop()


async def test_device_that_is_lost_in_idle_time_is_the_end() -> None:
    thread = EngineThread(watchdog_s=5, idle_after_s=0.001)

    def lose() -> bool:
        raise DeviceLost("gone")

    thread.when_idle(lose)
    assert await asyncio.wait_for(asyncio.shield(thread.died), 5) == "the device is lost: gone"
    thread.stop()


async def test_launches_are_counted_by_kind(running: RunningWorker) -> None:
    await running.submit(1)
    assert running.value("graph_misses_total") == 0
    running.engine.launch = "eager"
    await running.submit(1, 2)
    running.engine.launch = "replay"
    await running.submit(1, 2)
    await running.submit(1, 2)
    assert running.value("graph_misses_total") == 1
    assert running.value("graph_replays_total", bucket="3") == 2


async def test_figures_of_the_device_are_those_of_the_last_heartbeat(
    wait_until: WaitUntil,
) -> None:
    async with RunningWorker.ready(heartbeat_s=0.005) as running:
        stats = DeviceStats(
            *(2, 300), captures=3, failed_captures=1, evictions=0, used_bytes=7, total_bytes=9
        )
        running.engine.device_stats = stats
        await wait_until(lambda: running.value("graphs") == 2)
        assert running.value("graph_bytes") == 300
        assert (running.value("device_used_bytes"), running.value("device_total_bytes")) == (7, 9)
        assert running.value("graph_captures_total") == 3
        running.engine.device_stats = DeviceStats(3, 400, 5, 1, 2, 7, 9)
        await wait_until(lambda: running.value("graph_captures_total") == 5)
        assert running.value("graph_capture_failures_total") == 1
        assert running.value("graph_evictions_total") == 2


async def test_engine_is_closed_after_the_last_step(running: RunningWorker) -> None:
    await running.submit(1)
    assert not running.engine.closed
    running.worker.drain()
    await running.task
    assert running.engine.closed
    assert running.value("batch_size_count") == 1
    assert running.value("batch_duration_seconds_count") == 1
    assert running.value("jobs_total", lane="online") == 1
    assert MODEL in await running.transport.models()


async def test_defect_in_idle_work_costs_that_work_alone(wait_until: WaitUntil) -> None:
    thread, engine = EngineThread(watchdog_s=5, idle_after_s=0.001), FakeEngine()
    calls = []

    def fail() -> bool:
        calls.append(1)
        raise ValueError("no")

    engine.idle_pieces = 3
    thread.when_idle(fail)
    thread.when_idle(engine.idle)
    await wait_until(lambda: engine.idle_pieces == 0)
    await thread.run(engine.step, BATCH)
    engine.idle_pieces = 2
    await wait_until(lambda: engine.idle_pieces == 0)
    assert len(calls) == 1
    thread.stop()


async def test_idle_work_waits_for_steps_that_run_on(wait_until: WaitUntil) -> None:
    thread, engine, later = EngineThread(watchdog_s=5, idle_after_s=0.001), FakeEngine(), []

    class Running:
        def ready(self) -> bool:
            return False

        def wait(self) -> StepOutput:
            return engine.step(BATCH).wait()

        def add_done_callback(self, callback: Callable[[LazyTensor], None]) -> None:
            later.append(callback)

    running, looked = Running(), threading.Event()
    step = asyncio.create_task(thread.run(lambda _: running, BATCH, looked.set))
    await wait_until(looked.is_set)
    engine.idle_pieces = 5
    thread.when_idle(engine.idle)
    idle_until_s = time.monotonic() + 0.05
    await wait_until(lambda: time.monotonic() > idle_until_s)
    assert engine.idle_pieces == 5
    later[0](running)
    await step
    await wait_until(lambda: engine.idle_pieces == 0)
    thread.stop()


async def test_what_a_step_leaves_is_done_once_its_rows_are_followed() -> None:
    thread, order = EngineThread(watchdog_s=5), []

    class Noted:
        def __init__(self, lazy: LazyTensor) -> None:
            self.lazy = lazy

        def ready(self) -> bool:
            return True

        def wait(self) -> StepOutput:
            return self.lazy.wait()

        def add_done_callback(self, callback: Callable[[LazyTensor], None]) -> None:
            order.append("followed")
            callback(self)

    await thread.run(
        lambda batch: Noted(FakeEngine().step(batch)), BATCH, lambda: order.append("after")
    )
    await thread.call(lambda: None)
    assert order == ["followed", "after"]
    thread.stop()


async def test_worker_calls_the_engine_back_after_each_step(running: RunningWorker) -> None:
    for _ in range(3):
        await running.submit(1)
    await running.thread.call(lambda: None)
    assert running.engine.followed == 3


async def test_heartbeat_that_ends_is_the_end(wait_until: WaitUntil) -> None:
    running = RunningWorker(heartbeat_s=0.005)

    def fail() -> None:
        raise RuntimeError("defect")

    running.engine.stats = fail  # type: ignore[method-assign]
    reason = await asyncio.wait_for(asyncio.shield(running.thread.died), 5)
    assert reason == "a task of the worker failed: RuntimeError"
    await running.task
