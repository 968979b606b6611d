"""Times are of the device's own clock, and of launches apart from it."""

import gc

import pytest
from simulated_device import SimulatedDevice

from bench.gpu.timing import Effort, capture, computed, time_enqueued, time_host, time_kernels

THREE_RUNS = Effort(timed_s=0, least_runs=3)


def test_time_of_what_was_enqueued_is_that_of_its_works() -> None:
    device = SimulatedDevice()

    def enqueue() -> None:
        for _ in range(4):
            device.run(lambda: None)

    timing = time_enqueued(device, enqueue, THREE_RUNS)
    assert timing.device_s == pytest.approx(4 * device.work_s)
    assert timing.runs == 3


def test_kernels_are_timed_within_one_graph_that_does_not_stay() -> None:
    device = SimulatedDevice()
    runs: list[int] = []
    works = [lambda place=place: runs.append(place) for place in range(5)]
    assert time_kernels(device, works, THREE_RUNS) == pytest.approx(device.work_s / 5)
    assert device.captures == 1
    assert device.graphs == []
    assert runs == [0, 1, 2, 3, 4] * 5  # once alone, once before timing, three times timed


def test_no_garbage_is_collected_during_a_capture() -> None:
    device = SimulatedDevice()
    collects = []
    device.during_capture = lambda: collects.append(gc.isenabled())
    capture(device.graph_pool().graph(), lambda: None)
    assert collects == [False]
    assert gc.isenabled()


def test_capture_that_fails_leaves_the_garbage_collection_as_it_was() -> None:
    device = SimulatedDevice()
    device.failing_captures = 1
    with pytest.raises(RuntimeError, match="CUDA error"):
        time_kernels(device, [lambda: None], THREE_RUNS)
    assert gc.isenabled()


def test_timing_ends_after_its_time_and_after_its_runs() -> None:
    device, runs = SimulatedDevice(), []
    assert time_enqueued(device, lambda: None, Effort(timed_s=60, most_runs=7)).runs == 7
    time_host(lambda: runs.append(1), Effort(timed_s=0, least_runs=2))
    assert len(runs) == 3  # the first is not timed


def test_what_was_computed_is_there() -> None:
    device = SimulatedDevice()
    assert computed(device, lambda: 7) == 7
    assert device.waiting == 0
