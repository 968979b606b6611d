"""What runs on the engine's thread besides steps."""

import threading
from collections.abc import AsyncIterator

import numpy as np
import pytest
from fake_engine import FakeEngine

from engine.batch import Batch
from worker.engine_thread import EngineDied, EngineThread


@pytest.fixture
async def thread() -> AsyncIterator[EngineThread]:
    thread = EngineThread(watchdog_s=0.1)
    yield thread
    thread.stop()


async def test_models_are_loaded_on_the_thread_that_computes(thread: EngineThread) -> None:
    seen: list[int] = []
    engine = FakeEngine()

    def step(batch):  # type: ignore[no-untyped-def]
        seen.append(threading.get_ident())
        return engine.step(batch)

    loaded_on = await thread.call(threading.get_ident)
    await thread.run(step, Batch("embed", np.array([3], np.int32), np.array([1], np.int32)))
    assert seen == [loaded_on]
    assert loaded_on != threading.get_ident()


async def test_fault_of_a_call_is_its_callers_and_the_thread_goes_on(thread: EngineThread) -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await thread.call(fail)
    assert await thread.call(lambda: 7) == 7


async def test_call_may_take_longer_than_a_step(thread: EngineThread) -> None:
    wait = threading.Event().wait
    await thread.call(lambda: wait(0.4))
    assert not thread.died.done()


async def test_call_on_a_thread_that_ends_is_told(thread: EngineThread) -> None:
    def leave() -> None:
        raise SystemExit

    with pytest.raises(EngineDied, match="SystemExit"):
        await thread.call(leave)
