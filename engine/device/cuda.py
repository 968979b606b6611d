"""The device that is meant: one CUDA stream of one GPU, by torch."""

from collections.abc import Callable
from contextlib import suppress
from typing import cast

import torch
from torch import Tensor

from engine.device.device import Event, Graph, GraphPool


class CudaDevice:
    """Work goes to a stream of its own: graphs cannot be captured on the default one, which waits
    for all others besides. Capture, warm-up and eager steps share it, and so cuBLAS' workspace."""

    def __init__(self, index: int = 0) -> None:
        self.place = torch.device("cuda", index)
        self.name = str(self.place)
        self.model = torch.cuda.get_device_name(self.place)
        self._stream = torch.cuda.Stream(self.place)  # type: ignore[no-untyped-call]

    def run(self, work: Callable[[], None]) -> None:
        with torch.cuda.stream(self._stream):
            work()

    def event(self) -> Event:
        return CudaEvent(self._stream)

    def graph_pool(self) -> GraphPool:
        return CudaGraphPool(self._stream)

    def pinned(self, size_bytes: int) -> Tensor:
        with torch.cuda.device(self.place):
            return torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True)

    def memory(self) -> tuple[int, int]:
        return torch.cuda.mem_get_info(self.place)

    def release_unused(self) -> None:
        torch.cuda.empty_cache()

    def synchronize(self) -> None:
        """Other streams too: weights are read and cast on the default one."""
        torch.cuda.synchronize(self.place)


class CudaEvent:
    """Waiting spins and lets the interpreter go: the shortest latency, for the price of a core."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream
        self._event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]

    def record(self) -> None:
        self._event.record(self._stream)

    def query(self) -> bool:
        return bool(self._event.query())  # type: ignore[no-untyped-call]

    def synchronize(self) -> None:
        self._event.synchronize()

    def elapsed_s(self, earlier: Event) -> float:
        started = cast(CudaEvent, earlier)._event
        return float(started.elapsed_time(self._event)) / 1000  # milliseconds


class CudaGraphPool:
    """Graphs of one stream share memory: no two of them ever run at once."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self.stream = stream
        self.handle = torch.cuda.graph_pool_handle()
        self._abandoned: list[torch.cuda.CUDAGraph] = []

    def graph(self) -> Graph:
        return CudaGraph(self)

    def abandon(self, graph: torch.cuda.CUDAGraph) -> None:
        """After a capture that CUDA broke off, go on with new memory.

        torch then leaves its allocators recording to the pool: every later capture into it would
        be refused, and no cached memory would be freed for an allocation in need. Only that of
        the device can be told, so the handle is changed for the host's sake; and as that keeps a
        pointer to the graph, the graph must live.
        """
        index = self.stream.device.index
        try:
            torch._C._cuda_endAllocateToPool(index, self.handle)
        except RuntimeError:
            return  # it was not recording: the capture ended in order, whatever failed
        self._abandoned.append(graph)
        self.handle = torch.cuda.graph_pool_handle()


class CudaGraph:
    def __init__(self, pool: CudaGraphPool) -> None:
        self._pool = pool
        with torch.cuda.stream(pool.stream):
            self._graph = torch.cuda.CUDAGraph()

    def capture(self, work: Callable[[], None]) -> None:
        """`torch.cuda.graph` would wait for the device and empty its caches first: not while
        serving. Other threads may wait for events meanwhile: only this one's calls are watched."""
        with torch.cuda.stream(self._pool.stream):
            try:
                self._graph.capture_begin(pool=self._pool.handle, capture_error_mode="thread_local")
                self._record(work)
            except BaseException:
                self._pool.abandon(self._graph)
                raise

    def replay(self) -> None:
        with torch.cuda.stream(self._pool.stream):
            self._graph.replay()

    def reset(self) -> None:
        self._graph.reset()

    def _record(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:
            with suppress(RuntimeError):  # says only that something failed before
                self._graph.capture_end()
            raise
        self._graph.capture_end()
