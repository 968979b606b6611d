"""The parts together: a model of sums, two steps in flight, random lengths."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from simulated_device import SimulatedDevice

from engine.device.buckets import SLOTS, Configuration
from engine.device.completion import Completion, DeviceTensor
from engine.device.device import Event
from engine.device.graphs import GraphLimits, Graphs, Program
from engine.device.staging import InputRing, OutputPool
from engine.lazy import StepOutput

MAX_TOKENS = 1024
INTS = SLOTS[-1] + 2 + MAX_TOKENS
IN_FLIGHT = 2


class Step(NamedTuple):
    done: Event
    tensor: DeviceTensor


class Sums:
    """Adds up the ids of each sequence, in static buffers, by graphs where there are any.

    Inputs lie as those of a model do: cu_seqlens [S + 2], then ids [T], so that what is left of
    another configuration would be read as lengths.
    """

    def __init__(self, device: SimulatedDevice, limits: GraphLimits) -> None:
        self._device, self._completion = device, Completion()
        self._ring, self._pool = InputRing(device, INTS, IN_FLIGHT + 1), OutputPool(device)
        self._inputs = torch.zeros(INTS, dtype=torch.int32)
        self._outputs = torch.full((SLOTS[-1], 1), torch.nan)
        program = Program(self._forward, self._upload_blank)
        self.graphs = Graphs(device.graph_pool(), device, program, limits)
        self.buffers_in_flight: deque[int] = deque(maxlen=IN_FLIGHT)

    def step(self, ids: NDArray[np.int32], lengths: NDArray[np.int32]) -> "Step":
        rows = lengths.size
        configuration, _ = self.graphs.configure("embed", int(ids.size), rows)
        self._upload(configuration, ids, lengths)
        self.graphs.launch(configuration)
        block = self._pool.take(4 * rows)
        host = block.rows(rows, 1)
        self._device.run(lambda: host.copy_(self._outputs[:rows]))
        done = self._device.event()
        done.record()
        self.graphs.after_step(configuration)

        def finish() -> StepOutput:
            copied = host.numpy().copy()
            host.fill_(torch.nan)
            self._pool.give(block)
            return StepOutput(copied, np.isfinite(copied[:, 0]), {})

        return Step(done, self._completion.follow(done, finish))

    def stop(self) -> None:
        self._completion.stop()

    def _upload(
        self, configuration: Configuration, ids: NDArray[np.int32], lengths: NDArray[np.int32]
    ) -> None:
        buffer = self._ring.take()
        assert buffer.host.data_ptr() not in self.buffers_in_flight
        self.buffers_in_flight.append(buffer.host.data_ptr())
        slots, size = configuration.slots, configuration.slots + 2 + configuration.tokens
        used = np.zeros(slots + 1, np.int32)
        used[: lengths.size] = lengths
        used[-1] = configuration.tokens - ids.size  # the dummy tail
        buffer.array[:size] = -(10**6)  # what no step may read
        buffer.array[0] = 0
        buffer.array[1 : slots + 2] = np.cumsum(used)
        buffer.array[slots + 2 :][: ids.size] = ids
        self._device.run(lambda: self._inputs[:size].copy_(buffer.host[:size]))
        self._ring.give(buffer)

    def _upload_blank(self, configuration: Configuration) -> None:
        empty = np.zeros(0, np.int32)
        self._upload(configuration, empty, empty)

    def _forward(self, configuration: Configuration) -> None:
        starts = self._inputs[: configuration.slots + 2].tolist()
        ids = self._inputs[configuration.slots + 2 :][: configuration.tokens]
        for slot in range(configuration.slots):
            self._outputs[slot] = ids[starts[slot] : starts[slot + 1]].sum()


@contextmanager
def serving(device: SimulatedDevice, limits: GraphLimits) -> Iterator[Sums]:
    sums = Sums(device, limits)
    try:
        with device.held():
            yield sums
    finally:
        sums.stop()


@dataclass(frozen=True)
class Request:
    ids: NDArray[np.int32]
    lengths: NDArray[np.int32]

    @property
    def sums(self) -> list[int]:
        return [int(part.sum()) for part in np.split(self.ids, np.cumsum(self.lengths)[:-1])]


# A short list of lengths, so that configurations come again and graphs are replayed.
lengths = st.lists(st.sampled_from([1, 2, 17, 63, 64, 65, 130]), min_size=1, max_size=7)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    chosen = np.array(draw(lengths), np.int32)
    seed = draw(st.integers(0, 2**16))
    ids = np.random.default_rng(seed).integers(0, 1000, int(chosen.sum()), np.int32)
    return Request(ids, chosen)


@settings(max_examples=150, deadline=None)
@given(
    stream=st.lists(requests(), min_size=1, max_size=12),
    advances=st.lists(st.integers(0, 6), min_size=12, max_size=12),
    max_count=st.sampled_from([1, 2, 256]),
)
def test_results_never_cross_requests(
    stream: list[Request], advances: list[int], max_count: int
) -> None:
    """Two steps in flight, the device anywhere between them, graphs captured and evicted."""
    device = SimulatedDevice()
    with serving(device, GraphLimits(MAX_TOKENS, max_count)) as sums:
        in_flight: deque[tuple[Request, Step]] = deque()
        for request, works in zip(stream, advances, strict=False):
            if len(in_flight) == IN_FLIGHT:
                check(device, *in_flight.popleft())
            in_flight.append((request, sums.step(request.ids, request.lengths)))
            device.advance(min(works, device.waiting))
        while in_flight:
            check(device, *in_flight.popleft())
        assert sums.graphs.stats.failed == 0
        assert sums.graphs.stats.count <= max_count


def check(device: SimulatedDevice, request: Request, step: Step) -> None:
    while not step.done.query():
        device.advance(1)
    assert step.tensor.wait().rows[:, 0].tolist() == request.sums


def test_replay_after_a_bigger_batch_sees_nothing_of_it() -> None:
    device = SimulatedDevice()
    big = Request(np.full(400, 5, np.int32), np.full(8, 50, np.int32))
    small = Request(np.arange(6, dtype=np.int32), np.array([1, 5], np.int32))
    with serving(device, GraphLimits(MAX_TOKENS)) as sums:
        for request in (big, big, big, small, small, small, big, small):
            check(device, request, sums.step(request.ids, request.lengths))
        assert sums.graphs.stats.replays == 4


def test_step_that_captures_answers_before_its_capture_matters() -> None:
    device = SimulatedDevice()
    request = Request(np.arange(64, dtype=np.int32), np.array([64], np.int32))
    with serving(device, GraphLimits(MAX_TOKENS)) as sums:
        first = sums.step(request.ids, request.lengths)
        second = sums.step(request.ids, request.lengths)
        assert sums.graphs.stats.captures == 1
        assert not first.tensor.ready()
        check(device, request, first)
        check(device, request, second)
