"""Before serving: memory is taken, launching is measured, the largest graph is captured."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from engine.device.buckets import SLOTS, TOKEN_BUCKETS, Configuration, token_bucket
from engine.device.device import Device
from engine.device.graphs import GraphLimits, Graphs, Program
from engine.device.hot_list import HotList
from engine.device.inflection import Timing, inflection_point
from engine.device.memory import is_out_of_memory
from engine.device.program import ModelProgram
from engine.errors import EngineError

logger = logging.getLogger(__name__)

_GIB = 1 << 30
_TILED_TOKENS = 512  # above, products are a library's
_AHEAD = 4.0  # how much longer than a launch the device must be busy for the launch to be hidden


@contextmanager
def memory_is_told(device: Device, budget_tokens: int) -> Iterator[None]:
    """Where the device has too little memory to start with, raise EngineError and say how much."""
    free_bytes, total_bytes = device.memory()
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise EngineError(
            f"{device.name} has {free_bytes / _GIB:.1f} of {total_bytes / _GIB:.1f} GiB free "
            f"beside the weights: too little for steps of {budget_tokens} tokens; "
            "lower max_batch_tokens"
        ) from error


def reserve(program: ModelProgram, device: Device, budget_tokens: int) -> None:
    """Run the largest step of each kind, so that its memory is the process's own."""
    for kind in program.kinds:
        _run(program, device, program.blank(kind, budget_tokens))


def warm_up_short_steps(program: ModelProgram, device: Device) -> None:
    """Run every total that kernels have tiles of their own for: none is compiled while serving."""
    for tokens in TOKEN_BUCKETS:
        if tokens <= min(_TILED_TOKENS, program.max_tokens):
            _run(program, device, program.blank(program.kinds[0], tokens))


def _run(program: ModelProgram, device: Device, configuration: Configuration) -> None:
    program.upload_blank(configuration)
    program.run_exact(configuration)
    device.synchronize()


def measured_graph_tokens(program: ModelProgram, device: Device, budget_tokens: int) -> int:
    """The inflection point among the totals up to the budget: above it no graph gains."""
    buckets = [tokens for tokens in TOKEN_BUCKETS if tokens <= token_bucket(budget_tokens)]
    watch = _Watch(program, device, program.kinds[0])
    return inflection_point(buckets, watch.busied_by(buckets).time)


class _Watch:
    """Times forwards, of which the launch is to be hidden behind other work of the device."""

    def __init__(self, program: ModelProgram, device: Device, kind: str) -> None:
        self._program, self._device, self._kind = program, device, kind
        self._busy: Configuration | None = None

    def busied_by(self, buckets: list[int]) -> "_Watch":
        """Choose what keeps the device busy: a total that takes much longer than a launch.

        Without it a step whose launch is the slower part would seem to take just as long itself.
        """
        tokens, timing = buckets[-1], self.time(buckets[-1])
        while tokens > buckets[0] and timing.device_s > 2 * _AHEAD * timing.launch_s:
            tokens = token_bucket(tokens // 2)
            timing = self.time(tokens)
        self._busy = self._program.blank(self._kind, tokens)
        return self

    def time(self, tokens: int) -> Timing:
        configuration = self._program.blank(self._kind, tokens)
        self._timed(configuration)  # compiles what it needs
        return self._timed(configuration, self._busy)

    def _timed(self, configuration: Configuration, busy: Configuration | None = None) -> Timing:
        started, ended = self._device.event(), self._device.event()
        if busy is not None:
            self._program.upload_blank(busy)
            self._program.run_exact(busy)
        self._program.upload_blank(configuration)
        started.record()
        launched_s = perf_counter()
        self._program.run_exact(configuration)
        launch_s = perf_counter() - launched_s
        ended.record()
        ended.synchronize()
        return Timing(launch_s, ended.elapsed_s(started))


def primed_graphs(
    program: ModelProgram, device: Device, graph_tokens: int, hot: HotList | None
) -> Graphs:
    """Graphs up to `graph_tokens` (0: none), the largest captured first: it sizes their memory."""
    graphs = Graphs(
        device.graph_pool(),
        device,
        Program(program.forward, program.upload_blank, program.kinds),
        GraphLimits(graph_tokens),
        hot,
    )
    if graph_tokens:
        for kind in program.kinds:
            bound = program.blank(kind, graph_tokens).max_seqlen
            largest = Configuration(kind, graph_tokens, SLOTS[-1], bound)
            if not graphs.prime(largest):
                logger.warning("the memory of graphs grows while serving: none of %s", largest)
    return graphs
