"""A device whose queue runs late: what was enqueued happens when somebody waits for it.

Whatever reuses a buffer too early, waits where it may not, or resets what is still to be replayed,
fails here as it would on an accelerator, or gives wrong numbers.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Lock, get_ident

import pytest
import torch
from reference_attention import ReferenceAttention
from torch import Tensor

from engine.device.device import Event

Work = Callable[[], None]


def simulate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every engine that is loaded from now on runs on such a device, by reference attention."""
    monkeypatch.setattr("engine.runtime._open", lambda _: SimulatedDevice())
    monkeypatch.setattr("engine.runtime._DEVICE_BATCH_TOKENS", 4096)  # it is a CPU, after all
    monkeypatch.setattr("engine.engine.Installed", lambda _: {"triton": ReferenceAttention()})


class SimulatedDevice:
    name = "simulated:0"
    model = "Simulated"
    place = torch.device("cpu")

    def __init__(self, free_bytes: int = 1 << 30, graph_bytes: int = 1 << 20) -> None:
        self.total_bytes = self.free_bytes = free_bytes
        self.graph_bytes = graph_bytes  # what each capture takes, until its graph is reset
        self.work_s = 0.001  # what each work takes of the device's time
        self.now_s = 0.0
        self.graphs: list[SimulatedGraph] = []  # captured, and not reset
        self.captures = self.pinned_blocks = self.releases = 0
        self.failing_captures = 0  # as many of the next captures fail
        self.during_capture: Callable[[], object] = lambda: None
        self._refusal: Exception | None = None
        self._broken: Exception | None = None
        self._queue: deque[Work] = deque()
        self._queue_lock, self._running = Lock(), Condition()
        self._enqueued = self._done = 0
        self._holder: int | None = None  # the thread that alone lets the queue run
        self._runner: int | None = None  # the thread that runs a work at the moment
        self._capturer: int | None = None

    # What the engine uses

    def run(self, work: Work) -> None:
        if self._runner == get_ident():
            work()
            return
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal
        self.enqueue(timed(self, work))

    def event(self) -> "SimulatedEvent":
        return SimulatedEvent(self)

    def graph_pool(self) -> "SimulatedPool":
        return SimulatedPool(self)

    def pinned(self, size_bytes: int) -> Tensor:
        self.forbid("allocates page-locked memory")
        self.pinned_blocks += 1
        block = torch.empty(size_bytes, dtype=torch.uint8)
        block[:16_384] = 0xA5  # whatever was there
        return block

    def memory(self) -> tuple[int, int]:
        return self.free_bytes, self.total_bytes

    def release_unused(self) -> None:
        self.forbid("releases memory")
        self.releases += 1

    def synchronize(self) -> None:
        self.run_until(self._enqueued)

    # What tests steer it with

    @property
    def waiting(self) -> int:
        """Works and events that are enqueued and have not happened."""
        return self._enqueued - self._done

    def advance(self, works: int | None = None) -> None:
        """Let the next works happen (events count as one); all of them by default."""
        self._run_here(self._enqueued if works is None else self._done + works)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Only this thread's `advance` and waiting let the queue run: other threads wait."""
        self._holder = get_ident()
        try:
            yield
        finally:
            with self._running:
                self._holder = None
                self._running.notify_all()

    def refuse_next_run(self, error: Exception) -> None:
        """As an allocation fails while a forward is launched."""
        self._refusal = error

    def run_out_of_memory(self) -> None:
        self.refuse_next_run(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"))

    def break_down(self) -> None:
        """From here on whoever waits learns of an illegal access."""
        self._broken = RuntimeError("CUDA error: an illegal memory access was encountered\nadvice")

    # What its events and graphs are made of

    def enqueue(self, work: Work) -> int:
        """Its ticket: it has happened once so many have."""
        self.forbid("enqueues outside the graph", running=False)
        with self._queue_lock:
            self._queue.append(work)
            self._enqueued += 1
            return self._enqueued

    def has_run(self, ticket: int) -> bool:
        self.forbid("asks for an event", running=False)
        return self._done >= ticket

    def run_until(self, ticket: int) -> None:
        self.forbid("waits for the device")
        with self._running:
            self._running.wait_for(
                lambda: self._holder in (None, get_ident()) or self._done >= ticket
            )
        self._run_here(ticket)
        if self._broken is not None:
            raise self._broken

    def forbid(self, deed: str, running: bool = True) -> None:
        """Nothing of the kind during this thread's capture, nor (`running`) inside a work."""
        if self._capturer == get_ident() or (running and self._runner == get_ident()):
            raise RuntimeError(f"operation not permitted: {deed} when stream is capturing")

    @contextmanager
    def capturing(self) -> Iterator[None]:
        self.forbid("captures")
        if self._capturer is not None:
            raise RuntimeError("operation not permitted: two captures at once")
        self._capturer = get_ident()
        try:
            self.during_capture()
            if self.failing_captures:
                self.failing_captures -= 1
                raise RuntimeError("CUDA error: operation failed due to a previous error")
            yield
        finally:
            self._capturer = None

    def _run_here(self, ticket: int) -> None:
        with self._running:
            while self._done < ticket:
                work = self._queue.popleft()
                self._runner = get_ident()
                try:
                    with torch.inference_mode():
                        work()
                except Exception as error:
                    self._broken = self._broken or error
                finally:
                    self._runner = None
                    self._done += 1
            self._running.notify_all()


class SimulatedEvent:
    def __init__(self, device: SimulatedDevice) -> None:
        self._device, self._ticket, self._passed_s = device, 0, 0.0

    def record(self) -> None:
        self._ticket = self._device.enqueue(self._pass)

    def query(self) -> bool:
        return self._device.has_run(self._ticket)

    def synchronize(self) -> None:
        self._device.run_until(self._ticket)

    def elapsed_s(self, earlier: Event) -> float:
        if not isinstance(earlier, SimulatedEvent) or not (self.query() and earlier.query()):
            raise RuntimeError("both events must have been recorded and come by")
        return self._passed_s - earlier._passed_s

    def _pass(self) -> None:
        self._passed_s = self._device.now_s


class SimulatedPool:
    def __init__(self, device: SimulatedDevice) -> None:
        self._device = device

    def graph(self) -> "SimulatedGraph":
        return SimulatedGraph(self._device)


class SimulatedGraph:
    """Replays by doing the work again; a capture does nothing of it."""

    def __init__(self, device: SimulatedDevice) -> None:
        self._device = device
        self._work: Work | None = None
        self._ticket = 0  # of the last replay

    def capture(self, work: Work) -> None:
        with self._device.capturing():
            self._work = work
            self._device.captures += 1
            self._device.free_bytes -= self._device.graph_bytes
            self._device.graphs.append(self)

    def replay(self) -> None:
        if self._work is None:
            raise RuntimeError("replay without a preceding successful capture")
        self._ticket = self._device.enqueue(timed(self._device, self._work))

    def reset(self) -> None:
        if not self._device.has_run(self._ticket):
            raise RuntimeError("a graph was reset while its replay was under way")
        if self._work is not None:
            self._work = None
            self._device.free_bytes += self._device.graph_bytes
            self._device.graphs.remove(self)


def timed(device: SimulatedDevice, work: Work) -> Work:
    def run() -> None:
        device.now_s += device.work_s
        work()

    return run
