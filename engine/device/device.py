"""What the engine asks of an accelerator: so little that a test can stand in for one."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor


class Event(Protocol):
    """A place in the device's queue."""

    def record(self) -> None:
        """Behind everything that was enqueued so far."""
        ...

    def query(self) -> bool:
        """Whether the device has come by. Does not wait."""
        ...

    def synchronize(self) -> None:
        """Wait until it has, without holding the interpreter. Raises what the device raised."""
        ...

    def elapsed_s(self, earlier: "Event") -> float:
        """Device time between two events that the device has come by."""
        ...


class Graph(Protocol):
    def capture(self, work: Callable[[], None]) -> None:
        """Record what `work` enqueues instead of running it. Raises whatever goes wrong."""
        ...

    def replay(self) -> None:
        """Enqueue what was recorded."""
        ...

    def reset(self) -> None:
        """Give back its memory. No replay may be under way."""
        ...


class GraphPool(Protocol):
    """Memory that graphs share which are never replayed at the same time."""

    def graph(self) -> Graph: ...


class Device(Protocol):
    """One queue of work, run in order. Everything but `Event.synchronize` returns at once."""

    name: str  # cuda:0
    model: str  # as the vendor calls it
    place: torch.device

    def run(self, work: Callable[[], None]) -> None:
        """Enqueue what `work` does with tensors of the device."""
        ...

    def event(self) -> Event: ...

    def graph_pool(self) -> GraphPool: ...

    def pinned(self, size_bytes: int) -> Tensor:
        """Page-locked host memory [size_bytes] uint8. Slow, and forbidden during a capture."""
        ...

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        ...

    def release_unused(self) -> None:
        """Give cached memory back to the device, after running out of it."""
        ...

    def synchronize(self) -> None:
        """Wait for everything. Only before serving."""
        ...
