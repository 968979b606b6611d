"""How long the device is busy, and how long the host is to make it so."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import TypeVar

from engine.device.device import Device, Graph

Work = Callable[[], object]  # what it returns is let go
Result = TypeVar("Result")


@dataclass(frozen=True)
class Effort:
    """Runs until a time has passed, but for these bounds. The first, which compiles, is no run."""

    timed_s: float = 0.25
    least_runs: int = 3
    most_runs: int = 200


@dataclass(frozen=True)
class Timing:
    """Medians of runs that each began when the device had nothing else to do."""

    device_s: float  # from an event in front to one behind
    launch_s: float  # of the host, to enqueue it
    runs: int


def time_enqueued(device: Device, enqueue: Work, effort: Effort) -> Timing:
    """Of what `enqueue` puts into the device's queue, waiting for nothing."""
    enqueue()
    device.synchronize()
    device_s: list[float] = []
    launch_s: list[float] = []
    began_s = perf_counter()
    while _goes_on(len(device_s), perf_counter() - began_s, effort):
        started, ended = device.event(), device.event()
        started.record()
        launched_s = perf_counter()
        enqueue()
        launch_s.append(perf_counter() - launched_s)
        ended.record()
        ended.synchronize()
        device_s.append(ended.elapsed_s(started))
    return Timing(median(device_s), median(launch_s), len(device_s))


def time_kernels(device: Device, works: Sequence[Work], effort: Effort) -> float:
    """Seconds of one work, between others of its kind: all are captured, so no launch counts."""
    for work in works:
        device.run(partial(_run_all, [work]))
    device.synchronize()
    graph = device.graph_pool().graph()
    capture(graph, partial(_run_all, works))
    try:
        return time_enqueued(device, graph.replay, effort).device_s / len(works)
    finally:
        device.synchronize()
        graph.reset()


def capture(graph: Graph, work: Callable[[], None]) -> None:
    """No garbage is collected meanwhile: it could hold an event, whose end no capture survives."""
    collects = gc.isenabled()
    gc.disable()
    try:
        graph.capture(work)
    finally:
        if collects:
            gc.enable()


def time_host(work: Callable[[], Result], effort: Effort) -> float:
    """Seconds of the host, the median."""
    work()
    took_s: list[float] = []
    began_s = perf_counter()
    while _goes_on(len(took_s), perf_counter() - began_s, effort):
        started_s = perf_counter()
        work()
        took_s.append(perf_counter() - started_s)
    return median(took_s)


def computed(device: Device, work: Callable[[], Result]) -> Result:
    """What the work gives, once the device is done with it."""
    found: list[Result] = []
    device.run(lambda: found.append(work()))
    device.synchronize()
    return found[0]


def _goes_on(runs: int, passed_s: float, effort: Effort) -> bool:
    return runs < effort.least_runs or (passed_s < effort.timed_s and runs < effort.most_runs)


def _run_all(works: Sequence[Work]) -> None:
    for work in works:
        work()
