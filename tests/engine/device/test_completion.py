import logging
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from simulated_device import SimulatedDevice

from engine.device.completion import Completion, DeviceTensor
from engine.errors import DeviceLost, OutOfMemory
from engine.lazy import LazyTensor, StepOutput


@pytest.fixture
def device() -> SimulatedDevice:
    return SimulatedDevice()


@pytest.fixture
def completion() -> Iterator[Completion]:
    completion = Completion()
    yield completion
    completion.stop()


def output(value: float = 0.0) -> StepOutput:
    return StepOutput(np.full((1, 1), value, np.float32), np.ones(1, np.bool_), {})


def enqueue(
    device: SimulatedDevice, completion: Completion, finish: Callable[[], StepOutput]
) -> DeviceTensor:
    device.run(lambda: None)
    event = device.event()
    event.record()
    return completion.follow(event, finish)


def test_step_resolves_once_the_device_has_come_by(
    device: SimulatedDevice, completion: Completion
) -> None:
    finished: list[bool] = []

    def finish() -> StepOutput:
        finished.append(device.waiting == 0)
        return output(7)

    with device.held():
        step = enqueue(device, completion, finish)
        assert not step.ready()
        device.advance()
        assert step.wait().rows[0, 0] == 7
    assert step.ready()
    assert finished == [True]


def test_steps_resolve_in_the_order_they_were_enqueued(
    device: SimulatedDevice, completion: Completion
) -> None:
    order: list[int] = []
    with device.held():
        steps = [enqueue(device, completion, lambda i=i: output(i)) for i in range(5)]
        for step in steps:
            step.add_done_callback(lambda step: order.append(int(step.wait().rows[0, 0])))
        device.advance()
        assert [int(step.wait().rows[0, 0]) for step in steps] == [0, 1, 2, 3, 4]
    completion.stop()
    assert order == [0, 1, 2, 3, 4]


def test_callback_is_called_once_whenever_it_was_added(
    device: SimulatedDevice, completion: Completion
) -> None:
    calls: list[str] = []
    with device.held():
        step = enqueue(device, completion, output)
        step.add_done_callback(lambda _: calls.append("before"))
        device.advance()
        step.wait()
    completion.stop()
    step.add_done_callback(lambda _: calls.append("after"))
    assert calls == ["before", "after"]


def test_callbacks_of_many_threads_are_called_exactly_once() -> None:
    for _ in range(50):
        step, calls = DeviceTensor(), []
        barrier = threading.Barrier(4)

        def add(step: DeviceTensor, calls: list[int], barrier: threading.Barrier, i: int) -> None:
            barrier.wait()
            step.add_done_callback(lambda _: calls.append(i))

        threads = [threading.Thread(target=add, args=(step, calls, barrier, i)) for i in range(3)]
        for thread in threads:
            thread.start()
        barrier.wait()
        step.resolve(output())
        for thread in threads:
            thread.join()
        assert sorted(calls) == [0, 1, 2]


def test_error_of_the_device_is_the_error_of_the_step(
    device: SimulatedDevice, completion: Completion
) -> None:
    device.break_down()
    step = enqueue(device, completion, output)
    with pytest.raises(DeviceLost, match="illegal memory access"):
        step.wait()
    assert step.ready()


@pytest.mark.parametrize(
    ("raised", "expected"),
    [(ValueError("rows"), ValueError), (torch.OutOfMemoryError("CUDA out of memory"), OutOfMemory)],
)
def test_error_of_finishing_is_the_error_of_the_step(
    device: SimulatedDevice,
    completion: Completion,
    raised: Exception,
    expected: type[Exception],
) -> None:
    def finish() -> StepOutput:
        raise raised

    failed = enqueue(device, completion, finish)
    with pytest.raises(expected):
        failed.wait()
    assert enqueue(device, completion, lambda: output(2)).wait().rows[0, 0] == 2


def test_failed_step_calls_back_too(device: SimulatedDevice, completion: Completion) -> None:
    errors: list[bool] = []
    device.break_down()

    def look(step: LazyTensor) -> None:
        with pytest.raises(DeviceLost):
            step.wait()
        errors.append(step.ready())

    enqueue(device, completion, output).add_done_callback(look)
    completion.stop()
    assert errors == [True]


def test_callback_that_raises_holds_up_nothing(
    device: SimulatedDevice, completion: Completion, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def fail(_: LazyTensor) -> None:
        raise ValueError("a callback")

    with caplog.at_level(logging.ERROR), device.held():
        step = enqueue(device, completion, output)
        step.add_done_callback(fail)
        step.add_done_callback(lambda _: calls.append(1))
        device.advance()
        step.wait()
    assert enqueue(device, completion, lambda: output(2)).wait().rows[0, 0] == 2
    assert calls == [1]
    assert "a callback" in caplog.text


def test_stopping_completes_what_was_enqueued(device: SimulatedDevice) -> None:
    completion = Completion()
    steps = [enqueue(device, completion, output) for _ in range(3)]
    completion.stop()
    assert all(step.ready() for step in steps)
