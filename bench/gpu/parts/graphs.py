"""What graphs cost: memory, and the time of capturing them, by the order they are captured in."""

from collections.abc import Sequence
from statistics import median
from time import perf_counter

import numpy as np

from bench.gpu.forward import Forward
from bench.gpu.parts.part import Row, Rows, Value
from bench.gpu.setup import Setup
from bench.gpu.shapes import ModelShape
from engine.device.buckets import SLOTS, TOKEN_BUCKETS, Configuration
from engine.device.device import Graph


def measure(setup: Setup, shape: ModelShape) -> Rows:
    forward = setup.forward(shape)
    configurations = _configurations(forward, setup.sizes.graphs, setup.sizes.graph_tokens)
    for configuration in configurations:
        forward.warm_up(configuration)
    largest_first = sorted(configurations, key=lambda key: (-key.tokens, -key.slots))
    shuffled = np.random.default_rng(2).permutation(len(configurations))
    for name, order in (
        ("largest first", largest_first),
        ("random", [configurations[place] for place in shuffled]),
    ):
        setup.device.release_unused()
        columns: dict[str, Value] = {"model": shape.name, "order": name}
        yield Row("Graphs by the order of their capture", columns | _captured(forward, order))


def _configurations(forward: Forward, count: int, most_tokens: int) -> list[Configuration]:
    """Spread over totals and slots as texts of some hundred tokens have them."""
    buckets = [tokens for tokens in TOKEN_BUCKETS if tokens <= most_tokens]
    pairs = [
        (tokens, slots) for tokens in buckets for slots in SLOTS if tokens // slots in _LENGTHS
    ]
    places = np.linspace(0, len(pairs) - 1, min(count, len(pairs))).round().astype(int)
    return [forward.padded(*pairs[place]) for place in dict.fromkeys(places.tolist())]


_LENGTHS = range(8, 4097)


def _captured(forward: Forward, order: Sequence[Configuration]) -> dict[str, Value]:
    """All of one pool, then none: memory as the device reports it."""
    device, pool = forward.device, forward.device.graph_pool()
    graphs: list[Graph] = []
    sizes_bytes, took_s = [], []
    try:
        for configuration in order:
            graph = pool.graph()
            free_bytes, _ = device.memory()
            started_s = perf_counter()
            forward.capture(graph, configuration)
            took_s.append(perf_counter() - started_s)
            graphs.append(graph)
            sizes_bytes.append(free_bytes - device.memory()[0])
    finally:
        device.synchronize()
        for graph in graphs:
            graph.reset()
    return {
        "graphs": len(order),
        "memory_mib": sum(sizes_bytes) / 2**20,
        "first_mib": sizes_bytes[0] / 2**20,
        "median_of_others_mib": median(sizes_bytes[1:] or [0]) / 2**20,
        "largest_of_others_mib": max(sizes_bytes[1:] or [0]) / 2**20,
        "capture_median_ms": median(took_s) * 1e3,
        "capture_longest_ms": max(took_s) * 1e3,
    }
