"""Whole-model graphs, captured when they pay: eager, eager and capture, replay ever after."""

import gc
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

from engine.device.buckets import SLOTS, Configuration, seqlen_bucket, slot_bucket, token_bucket
from engine.device.device import Device, Event, Graph, GraphPool
from engine.device.memory import translated
from engine.errors import DeviceLost, OutOfMemory

logger = logging.getLogger(__name__)

_CAPTURED_AT_USE = 2  # a configuration seen once may never come again
_USES_AFTER_OOM = 100  # of a configuration, until its capture is tried again


@dataclass(frozen=True)
class Program:
    """What the graphs hold: one model's forward between static buffers.

    Both only enqueue, from static inputs to static outputs, and neither waits for the device.
    """

    forward: Callable[[Configuration], None]
    # Uploads inputs of the configuration that hold dummy tokens alone: what the buffers were last
    # filled with has another layout, and would send a forward anywhere in memory.
    upload_blank: Callable[[Configuration], None]
    kinds: Collection[str] | None = None  # what the model answers; None: anything


@dataclass(frozen=True)
class GraphLimits:
    max_tokens: int  # above, the device takes longer than the launching: a graph gains nothing
    max_count: int = 256  # each keeps some megabytes of the driver's, whatever it computes


@dataclass(frozen=True)
class GraphStats:
    count: int  # graphs that can be replayed
    bytes: int  # of the device's memory, measured as they were captured
    replays: int
    eager: int  # steps, warm-ups not counted
    captures: int
    failed: int  # captures
    evictions: int


class Uses(Protocol):
    """What remembers the configurations of the last run: `HotList`."""

    def count(self, configuration: Configuration) -> None: ...

    def hottest(self) -> list[Configuration]:
        """Of the last run, the most used first."""
        ...

    def save_when_due(self) -> None: ...


class Graphs:
    """The graphs of one model, all replayed on one queue and sharing one pool. For one thread.

    A step is `launch(configuration)` between its upload and its download, and
    `after_step(configuration)` once both and the step's event are enqueued.
    """

    def __init__(
        self,
        pool: GraphPool,
        device: Device,
        program: Program,
        limits: GraphLimits,
        hot: Uses | None = None,
    ) -> None:
        self._pool, self._device, self._program = pool, device, program
        self._limits, self._hot = limits, hot
        self._uses: Counter[Configuration] = Counter()
        self._captured: OrderedDict[Configuration, _Captured] = OrderedDict()  # last used last
        self._eager_only: set[Configuration] = set()
        self._evicted: deque[tuple[Event, Graph]] = deque()
        self._missing = deque(hot.hottest() if hot else ())
        self._replays = self._eager = self._captures = self._failed = self._size_bytes = 0
        self._evictions = 0

    def configure(
        self, kind: str, tokens: int, rows: int, max_seqlen: int = 0
    ) -> tuple[Configuration, bool]:
        """The configuration of a step, and whether it is padded for a graph.

        Where no graph would gain, or for more rows than slots, it is exact. `max_seqlen`, of an
        attention that bakes a bound in: tokens of the longest sequence.
        """
        padded, slots = token_bucket(tokens), slot_bucket(rows)
        if padded > self._limits.max_tokens or slots is None:
            return Configuration(kind, tokens, rows, max_seqlen), False
        if max_seqlen:
            max_seqlen = seqlen_bucket(max(max_seqlen, padded - tokens))  # the tail is a sequence
        return Configuration(kind, padded, slots, max_seqlen), True

    def launch(self, configuration: Configuration) -> Literal["replay", "eager"]:
        """Enqueue the forward. Raises what an eager one raises."""
        self._reset_evicted()
        captured = self._captured.get(configuration)
        if captured is None:
            self._run(configuration)
            self._eager += 1
        else:
            captured.graph.replay()
            self._captured.move_to_end(configuration)
            self._replays += 1
        if self._graphable(configuration):
            self._uses[configuration] += 1
            if self._hot:
                self._hot.count(configuration)
        return "eager" if captured is None else "replay"

    def after_step(self, configuration: Configuration) -> None:
        """Capture what was used often enough, while the device runs the step. Raises DeviceLost."""
        if self._uses[configuration] >= _CAPTURED_AT_USE and self._is_missing(configuration):
            self._capture(configuration)

    def prime(self, configuration: Configuration) -> bool:
        """Run and capture it before serving, never to be evicted; whether it was captured.

        The largest first: it makes the pool as large as all others need. Raises what the forward
        raises when it runs.
        """
        self._warm_up(configuration)
        self._capture(configuration)
        if configuration in self._captured:
            self._captured[configuration].primed = True
        return configuration in self._captured

    def idle(self) -> bool:
        """Capture one configuration that was hot in the last run. False: there is none left.

        For when no step waits: it takes as long as a step of the configuration. Raises DeviceLost.
        """
        self._reset_evicted()
        while self._missing and len(self._captured) < self._limits.max_count:
            configuration = self._missing.popleft()
            if not self._graphable(configuration) or not self._is_missing(configuration):
                continue
            try:
                self._warm_up(configuration)
            except Exception as error:
                self._leave_out(configuration, error)
            else:
                self._capture(configuration)
            return True
        if self._hot:
            self._hot.save_when_due()
        return False

    @property
    def stats(self) -> GraphStats:
        """From any thread."""
        return GraphStats(
            count=len(self._captured),
            bytes=self._size_bytes,
            replays=self._replays,
            eager=self._eager,
            captures=self._captures,
            failed=self._failed,
            evictions=self._evictions,
        )

    def _graphable(self, configuration: Configuration) -> bool:
        """Whether it is padded, as `configure` makes those that graphs are for."""
        kinds = self._program.kinds
        return (
            (kinds is None or configuration.kind in kinds)
            and configuration.tokens <= self._limits.max_tokens
            and configuration.tokens == token_bucket(configuration.tokens)
            and configuration.slots in SLOTS
        )

    def _is_missing(self, configuration: Configuration) -> bool:
        return configuration not in self._captured and configuration not in self._eager_only

    def _run(self, configuration: Configuration) -> None:
        self._device.run(partial(self._program.forward, configuration))

    def _warm_up(self, configuration: Configuration) -> None:
        """Everything that a capture may not do: compile, load kernels, allocate workspaces."""
        self._program.upload_blank(configuration)
        self._run(configuration)

    def _capture(self, configuration: Configuration) -> None:
        if not self._make_room():
            return
        graph = self._pool.graph()
        try:
            free_bytes, _ = self._device.memory()
            with _without_garbage_collection():
                graph.capture(partial(self._program.forward, configuration))
            size_bytes = max(0, free_bytes - self._device.memory()[0])
        except Exception as error:
            with suppress(Exception):
                graph.reset()
            self._leave_out(configuration, error)
            return
        self._captured[configuration] = _Captured(graph, size_bytes)
        self._captures += 1
        self._size_bytes += size_bytes
        logger.debug("captured %s: %d bytes", configuration, size_bytes)

    def _leave_out(self, configuration: Configuration, error: Exception) -> None:
        """Do without a graph: for good, or, where only memory was short, until a few uses later."""
        self._failed += 1
        error = translated(error)
        if isinstance(error, DeviceLost):
            raise error
        if isinstance(error, OutOfMemory):
            self._device.release_unused()
            self._uses[configuration] = -_USES_AFTER_OOM
            logger.warning("no memory for a graph of %s for now: %s", configuration, error)
            return
        self._eager_only.add(configuration)
        logger.warning("%s stays without a graph: %s", configuration, error)

    def _make_room(self) -> bool:
        """Evict the graph that was not used for longest. What is evicted starts over."""
        if len(self._captured) < self._limits.max_count:
            return True
        oldest = next((key for key, graph in self._captured.items() if not graph.primed), None)
        if oldest is None:
            return False
        passed = self._device.event()
        passed.record()  # behind its last replay, as it is behind everything
        evicted = self._captured.pop(oldest)
        self._size_bytes -= evicted.size_bytes
        self._evicted.append((passed, evicted.graph))
        self._evictions += 1
        del self._uses[oldest]
        return True

    def _reset_evicted(self) -> None:
        while self._evicted and self._evicted[0][0].query():
            _, graph = self._evicted.popleft()
            graph.reset()


@dataclass(slots=True)
class _Captured:
    graph: Graph
    size_bytes: int
    primed: bool = False


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """A collection could destroy an event or a graph, which no capture survives."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
