"""What is asked of torch.cuda, by fakes that bind each call to the signature of the real one."""

import inspect
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from types import TracebackType

import pytest
import torch

from engine.device.cuda import CudaDevice

PLACE = torch.device("cuda", 1)
ANSWERS = {"get_device_name": "H200", "mem_get_info": (3, 7), "synchronize": None}
CAPTURE_BEGIN = inspect.signature(torch.cuda.CUDAGraph.capture_begin)


class FakeCuda:
    """Streams, events and graphs that only note what they are told."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.current: list[FakeStream] = []  # innermost last
        self.pools = 0
        self.recording: set[tuple[int, int]] = set()  # pools, to the allocator's mind
        self.breaks_off: str | None = None  # the call at which CUDA ends a capture itself
        self.now_ms = 0.0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cuda = self

        class Stream(FakeStream):
            def __init__(self, device: torch.device) -> None:
                self.device, self.cuda = device, cuda

        class Event(FakeEvent):
            def __init__(self, *, enable_timing: bool) -> None:
                self.cuda, self.timed, self.at_ms = cuda, enable_timing, None

        class CUDAGraph(FakeGraph):
            def __init__(self) -> None:
                self.cuda = cuda
                cuda.note("CUDAGraph")

        real = {"stream": torch.cuda.stream, "graph_pool_handle": torch.cuda.graph_pool_handle}
        monkeypatch.setattr(torch.cuda, "Stream", Stream)
        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "CUDAGraph", CUDAGraph)
        monkeypatch.setattr(torch.cuda, "stream", bound(real["stream"], Current))
        monkeypatch.setattr(
            torch.cuda, "graph_pool_handle", bound(real["graph_pool_handle"], self._pool)
        )
        monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", self._end_allocate)
        for name, answer in ANSWERS.items():
            fake = bound(getattr(torch.cuda, name), self._answering(name, answer))
            monkeypatch.setattr(torch.cuda, name, fake)
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: self.note("empty_cache"))

    def note(self, call: str) -> None:
        self.calls.append(f"{call} on {self.current[-1].device}" if self.current else call)

    def _pool(self) -> tuple[int, int]:
        self.pools += 1
        return (0, self.pools)

    def _end_allocate(self, device: int, pool: tuple[int, int]) -> None:
        assert device == PLACE.index
        if pool not in self.recording:
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
        self.recording.remove(pool)

    def _answering(self, name: str, answer: object) -> Callable[[torch.device], object]:
        def call(device: torch.device) -> object:
            self.calls.append(f"{name}({device})")
            return answer

        return call


def bound(real: Callable[..., object], fake: Callable[..., object]) -> Callable[..., object]:
    signature = inspect.signature(real)

    def call(*args: object, **kwargs: object) -> object:
        signature.bind(*args, **kwargs)
        return fake(*args, **kwargs)

    return call


class FakeStream:
    cuda: FakeCuda
    device: torch.device


class Current:
    def __init__(self, stream: FakeStream) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        self._stream.cuda.current.append(self._stream)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stream.cuda.current.pop()


class FakeEvent:
    cuda: FakeCuda
    timed: bool
    at_ms: float | None

    def record(self, stream: FakeStream) -> None:
        assert stream.device == PLACE
        self.at_ms = self.cuda.now_ms

    def query(self) -> bool:
        return self.at_ms is not None

    def synchronize(self) -> None:
        self.cuda.calls.append("event.synchronize")

    def elapsed_time(self, end_event: "FakeEvent") -> float:
        assert self.timed
        assert end_event.timed
        assert self.at_ms is not None
        assert end_event.at_ms is not None
        return end_event.at_ms - self.at_ms


class FakeGraph:
    """As torch's: where CUDA breaks a capture off, the allocator is left recording."""

    cuda: FakeCuda

    def capture_begin(self, **kwargs: object) -> None:
        arguments = CAPTURE_BEGIN.bind(self, **kwargs)
        pool, mode = arguments.arguments["pool"], arguments.arguments["capture_error_mode"]
        if pool in self.cuda.recording:
            raise RuntimeError("beginAllocateToPool: already recording to mempool_id")
        self.cuda.note(f"begin {pool} {mode}")
        self.cuda.recording.add(pool)
        self._break_off("begin")
        self._pool = pool

    def capture_end(self) -> None:
        self.cuda.note("end")
        self._break_off("end")
        self.cuda.recording.remove(self._pool)

    def replay(self) -> None:
        self.cuda.note("replay")

    def reset(self) -> None:
        self.cuda.calls.append("reset")

    def _break_off(self, call: str) -> None:
        if self.cuda.breaks_off == call:
            raise RuntimeError("CUDA error: operation failed due to a previous error")


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    fake.install(monkeypatch)
    return fake


@pytest.fixture
def device(cuda: FakeCuda) -> CudaDevice:
    device = CudaDevice(1)
    cuda.calls.clear()
    return device


def test_device_is_named_as_torch_and_the_vendor_do(cuda: FakeCuda) -> None:
    device = CudaDevice(1)
    assert (device.name, device.model, device.place) == ("cuda:1", "H200", PLACE)
    assert device.memory() == (3, 7)
    assert cuda.calls == ["get_device_name(cuda:1)", "mem_get_info(cuda:1)"]


def test_work_runs_on_the_stream_and_leaves_it_when_it_fails(
    cuda: FakeCuda, device: CudaDevice
) -> None:
    def fail() -> None:
        raise ValueError("work")

    device.run(lambda: cuda.note("work"))
    with pytest.raises(ValueError, match="work"):
        device.run(fail)
    assert cuda.calls == ["work on cuda:1"]
    assert cuda.current == []


def test_waiting_is_for_the_whole_device(cuda: FakeCuda, device: CudaDevice) -> None:
    device.synchronize()
    device.release_unused()
    assert cuda.calls == ["synchronize(cuda:1)", "empty_cache"]


def test_time_between_events_is_in_seconds(cuda: FakeCuda, device: CudaDevice) -> None:
    earlier, later = device.event(), device.event()
    earlier.record()
    assert not later.query()
    cuda.now_ms = 250.0
    later.record()
    later.synchronize()
    assert later.query()
    assert later.elapsed_s(earlier) == 0.25


def test_host_memory_is_page_locked(
    monkeypatch: pytest.MonkeyPatch, cuda: FakeCuda, device: CudaDevice
) -> None:
    empty = torch.empty

    def without_a_driver(size: int, *, dtype: torch.dtype, pin_memory: bool) -> torch.Tensor:
        assert pin_memory
        return empty(size, dtype=dtype)

    monkeypatch.setattr(torch, "empty", without_a_driver)
    monkeypatch.setattr(torch.cuda, "device", bound(torch.cuda.device, lambda _: nullcontext()))
    block = device.pinned(96)
    assert (block.dtype, block.shape) == (torch.uint8, (96,))


def test_capture_watches_its_own_thread_alone_and_shares_the_pool(
    cuda: FakeCuda, device: CudaDevice
) -> None:
    pool = device.graph_pool()
    for _ in range(2):
        graph = pool.graph()
        graph.capture(lambda: cuda.note("work"))
    graph.replay()
    graph.reset()
    once = ["CUDAGraph", "begin (0, 1) thread_local", "work", "end"]
    assert cuda.calls == [f"{call} on cuda:1" for call in (*once, *once, "replay")] + ["reset"]


def fail() -> None:
    raise ValueError("work")


def test_capture_of_work_that_fails_ends_in_order(cuda: FakeCuda, device: CudaDevice) -> None:
    pool = device.graph_pool()
    with pytest.raises(ValueError, match="work"):
        pool.graph().capture(fail)
    assert cuda.recording == set()
    assert cuda.current == []
    pool.graph().capture(lambda: None)
    assert cuda.pools == 1


@pytest.mark.parametrize("call", ["begin", "end"])
@pytest.mark.parametrize("work", [fail, lambda: None])
def test_pool_is_left_behind_when_cuda_breaks_a_capture_off(
    cuda: FakeCuda, device: CudaDevice, call: str, work: Callable[[], None]
) -> None:
    pool = device.graph_pool()
    graph = pool.graph()
    cuda.breaks_off = call
    with pytest.raises((ValueError, RuntimeError)) as raised:
        graph.capture(work)
    # What went wrong first, not what followed from it.
    assert (raised.type is ValueError) == (work is fail and call == "end")
    assert cuda.recording == set()
    cuda.breaks_off = None
    cuda.calls.clear()
    pool.graph().capture(lambda: None)
    assert "begin (0, 2) thread_local on cuda:1" in cuda.calls


def test_graph_of_a_capture_broken_off_lives_as_long_as_the_pool(
    cuda: FakeCuda, device: CudaDevice
) -> None:
    pool = device.graph_pool()
    graph = pool.graph()
    inner = weakref.ref(graph._graph)  # type: ignore[attr-defined]
    cuda.breaks_off = "end"
    with pytest.raises(RuntimeError, match="previous error"):
        graph.capture(lambda: None)
    del graph
    assert inner() is not None
    del pool
    assert inner() is None
