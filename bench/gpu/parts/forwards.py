"""Whole forwards, launched and replayed, beside what the device could do at best."""

from dataclasses import replace
from functools import partial

from bench.gpu.forward import Route
from bench.gpu.loads import Load, batches_of
from bench.gpu.parts.part import Row, Rows, Value
from bench.gpu.roofline import bounds
from bench.gpu.setup import Setup
from bench.gpu.shapes import ModelShape
from bench.gpu.timing import Timing, time_enqueued
from engine.batch import Batch
from engine.device.startup import measured_graph_tokens

_REPLAYED_AT_USE = 3
_LONG_S = 0.2  # a load that takes so long is timed no more often than it must be


def measure(setup: Setup, shape: ModelShape) -> Rows:
    forward = setup.forward(shape)
    max_tokens = setup.step_tokens
    launched, replayed = forward.route(0), forward.route(max_tokens)
    inflection_tokens = measured_graph_tokens(forward.program, setup.device, max_tokens)
    yield Row("Inflection point", {"model": shape.name, "graphs_up_to_tokens": inflection_tokens})
    for load in setup.fitting(setup.sizes.loads, shape):
        batches = batches_of(load, shape.vocabulary, max_tokens)
        columns: dict[str, Value] = {"model": shape.name, "load": load.name, "steps": len(batches)}
        for name, route in (("launched", launched), ("replayed", replayed)):
            timing = _time(setup, route, batches)
            figures = _figures(shape, load, batches, timing)
            yield Row("Forwards", columns | {"how": name} | figures)
    stats = replayed.graphs.stats
    yield Row(
        "Graphs of the table above",
        {
            "model": shape.name,
            "graphs": stats.count,
            "failed": stats.failed,
            "memory_mib": stats.bytes / 2**20,
            "passes": not stats.failed,
        },
    )


def _time(setup: Setup, route: Route, batches: list[Batch]) -> Timing:
    enqueue = partial(route.enqueue_all, batches)
    for _ in range(_REPLAYED_AT_USE):
        enqueue()
    setup.device.synchronize()
    once = replace(setup.sizes.effort, timed_s=0, least_runs=1)
    timing = time_enqueued(setup.device, enqueue, once)
    if timing.device_s > _LONG_S:
        return timing
    return time_enqueued(setup.device, enqueue, setup.sizes.effort)


def _figures(
    shape: ModelShape, load: Load, batches: list[Batch], timing: Timing
) -> dict[str, Value]:
    best = [bounds(shape, batch.lengths.tolist()) for batch in batches]
    floor_s, target_s = sum(bound.floor_s for bound in best), sum(bound.target_s for bound in best)
    return {
        "device_ms": timing.device_s * 1e3,
        # Of several steps, the host waits for the first to be done before it uploads the fourth.
        "launch_ms": timing.launch_s * 1e3 if len(batches) == 1 else None,
        "texts_per_s": load.texts / timing.device_s,
        "tokens_per_s": load.tokens / timing.device_s,
        "floor_ms": floor_s * 1e3,
        "of_floor": floor_s / timing.device_s,
        "target_ms": target_s * 1e3,
        "over_target": timing.device_s / target_s,
        "runs": timing.runs,
    }
