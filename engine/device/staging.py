"""Page-locked host memory that is used again only when the device is done with it."""

from collections import deque
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.device.device import Device, Event


class InputBuffer:
    """What one step uploads, in one copy."""

    __slots__ = ("_read", "array", "host")

    def __init__(self, device: Device, ints: int) -> None:
        self.host: Tensor = device.pinned(4 * ints).view(torch.int32)  # [ints]
        self.array: NDArray[np.int32] = self.host.numpy()  # [ints], the same memory
        self._read: Event = device.event()

    def _give(self) -> None:
        self._read.record()

    def _wait(self) -> None:
        self._read.synchronize()


class InputRing:
    """Input buffers taken in turn. `depth`: steps in flight, and the one being packed."""

    def __init__(self, device: Device, ints: int, depth: int = 3) -> None:
        self._fresh = deque(InputBuffer(device, ints) for _ in range(depth))
        self._given: deque[InputBuffer] = deque()

    def take(self) -> InputBuffer:
        """A buffer for the host alone, until it is given back. Waits if all are in flight."""
        if self._fresh:
            return self._fresh.popleft()
        if not self._given:
            raise RuntimeError("every input buffer is taken and none was given back")
        buffer = self._given.popleft()
        buffer._wait()
        return buffer

    def give(self, buffer: InputBuffer) -> None:
        """Behind everything that reads it, also where the step failed halfway: taken again only
        when the device has done all that is enqueued so far."""
        buffer._give()
        self._given.append(buffer)


class Block:
    """Host memory for the rows of one step."""

    __slots__ = ("host",)

    def __init__(self, host: Tensor) -> None:
        self.host = host  # [size_bytes] uint8

    def rows(self, count: int, width: int) -> Tensor:
        """Its beginning as float32 [count, width]."""
        return self.host[: 4 * count * width].view(torch.float32).view(count, width)


class OutputPool:
    """Blocks of powers of two. The engine's thread takes them, the completion thread gives them."""

    SMALLEST_BYTES = 64 * 1024
    LARGEST_RESERVED_BYTES = 8 * 1024 * 1024  # larger ones are made when first asked for, and kept

    def __init__(self, device: Device, steps_in_flight: int = 2) -> None:
        self._device, self._lock = device, Lock()
        self._free: dict[int, list[Block]] = {}
        size_bytes = self.SMALLEST_BYTES
        while size_bytes <= self.LARGEST_RESERVED_BYTES:
            self._free[size_bytes] = [self._new(size_bytes) for _ in range(steps_in_flight + 1)]
            size_bytes *= 2

    def take(self, size_bytes: int) -> Block:
        """At least `size_bytes`. Not during a capture: it may have to allocate."""
        rounded = max(self.SMALLEST_BYTES, 1 << (size_bytes - 1).bit_length())
        with self._lock:
            free = self._free.setdefault(rounded, [])
            if free:
                return free.pop()
        return self._new(rounded)

    def give(self, block: Block) -> None:
        """Nobody reads it any more, neither the device nor the host."""
        with self._lock:
            self._free[block.host.numel()].append(block)

    def _new(self, size_bytes: int) -> Block:
        return Block(self._device.pinned(size_bytes))
