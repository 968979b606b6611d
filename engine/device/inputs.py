"""One int32 buffer that holds all that a step's forward reads: filled on the host, copied once."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.attention import AttentionSpec
from engine.backends.backend import AttentionBackend, DeviceStep, HostStep
from engine.backends.choice import Preference
from engine.batch import Batch
from engine.device.buckets import SLOTS, Configuration, token_bucket
from engine.device.device import Device
from engine.device.staging import InputBuffer
from engine.packing import Packed
from engine.ragged import Ragged
from engine.segments import Segments

# Each part begins at a multiple of 16 bytes, so that kernels read it four values at a time.
_ALIGNED_INTS = 4
_KEPT = 1024  # configurations whose views are kept: making them takes 20 µs


@dataclass(frozen=True)
class InputLimits:
    max_tokens: int  # T, at most
    max_positions: int  # of a sequence
    types: bool  # whether the model tells token types apart


@dataclass(frozen=True)
class Parts:
    """Where the buffer of a configuration of T tokens and S slots holds what."""

    input_ids: slice  # [T]
    position_ids: slice  # [T]
    type_ids: slice  # [T]; empty for a model without them
    cu_seqlens: slice  # [S + 2]
    starts: slice  # [S], of segments
    lengths: slice  # [S]
    positions: slice  # [S]
    attention: slice  # what the backend asks for
    end: slice  # empty

    @property
    def ints(self) -> int:
        return int(self.end.start)


class StaticInputs:
    """The inputs of one model on its device. Graphs hold its addresses, so it never moves."""

    def __init__(self, device: Device, attention: Preference, limits: InputLimits) -> None:
        self._attention, self._limits = attention, limits
        # Graphs have more tokens than a batch, and may have more slots than tokens; a span has at
        # least one token. Backends may ask for most where sequences are shortest or longest.
        most_tokens = token_bucket(limits.max_tokens)
        self.ints = max(
            self._parts(Configuration("", most_tokens, slots)).ints
            for slots in (1, max(most_tokens, SLOTS[-1]))
        )
        self._buffer = torch.empty(self.ints, dtype=torch.int32, device=device.place)
        self._packed = lru_cache(_KEPT)(self._view)

    def fill(self, buffer: InputBuffer, configuration: Configuration, batch: Batch) -> None:
        """Write a batch that fits the configuration."""
        lengths = _with_tail(batch.lengths, configuration)
        positions = np.arange(batch.tokens) - np.repeat(
            np.cumsum(batch.lengths) - batch.lengths, batch.lengths
        )
        parts, array = self._parts(configuration), buffer.array
        _write(array[parts.input_ids], batch.input_ids)
        _write(array[parts.position_ids], positions)
        _write(array[parts.type_ids], batch.type_ids)
        self._divide(buffer, configuration, lengths)
        if batch.spans is not None:
            sequences, starts, ends = batch.spans.T
            first = array[parts.cu_seqlens][sequences]
            _write(array[parts.starts], first + starts)
            _write(array[parts.lengths], ends - starts)
            _write(array[parts.positions], starts)

    def fill_blank(self, buffer: InputBuffer, configuration: Configuration) -> None:
        """As many tokens of id 0 in each slot, the rest in the tail: to warm up and to measure."""
        longest = self._limits.max_positions
        each = min(configuration.tokens // configuration.slots, longest)
        lengths = np.full(configuration.slots, each, np.int32)
        parts, array = self._parts(configuration), buffer.array
        array[: parts.cu_seqlens.start] = 0
        self._divide(buffer, configuration, _with_tail(lengths, configuration))

    def upload(self, buffer: InputBuffer, configuration: Configuration) -> None:
        """Enqueue the copy. In the device's queue."""
        ints = self._parts(configuration).ints
        self._buffer[:ints].copy_(buffer.host[:ints], non_blocking=True)

    def packed(self, configuration: Configuration) -> Packed:
        """What a forward of the configuration reads: views of the device's buffer."""
        return self._packed(configuration)

    def _view(self, configuration: Configuration) -> Packed:
        parts, backend = self._parts(configuration), self._backend(configuration)
        step = DeviceStep(
            configuration, self._buffer[parts.cu_seqlens], self._buffer[parts.attention]
        )

        def attend(qkv: Tensor, out: Tensor, spec: AttentionSpec) -> None:
            backend.run(qkv, out, spec, step)

        segments = (parts.starts, parts.lengths, parts.positions)
        return Packed(
            input_ids=self._buffer[parts.input_ids],
            position_ids=self._buffer[parts.position_ids],
            type_ids=self._buffer[parts.type_ids] if self._limits.types else None,
            ragged=Ragged(
                step.cu_seqlens, Segments(*(self._buffer[part] for part in segments)), attend
            ),
        )

    def _divide(
        self, buffer: InputBuffer, configuration: Configuration, lengths: NDArray[np.int32]
    ) -> None:
        """Write where sequences begin and end, each one segment, and what the attention needs."""
        parts, array = self._parts(configuration), buffer.array
        cu_seqlens = array[parts.cu_seqlens]
        cu_seqlens[0] = 0
        np.cumsum(lengths, out=cu_seqlens[1:])
        array[parts.starts] = cu_seqlens[:-2]
        array[parts.lengths] = lengths[:-1]
        array[parts.positions] = 0
        step = HostStep(
            configuration, lengths, buffer.host[parts.cu_seqlens], array[parts.attention]
        )
        self._backend(configuration).prepare(step)

    def _backend(self, configuration: Configuration) -> AttentionBackend:
        return self._attention.at(configuration.tokens, configuration.slots)

    def _parts(self, configuration: Configuration) -> Parts:
        tokens, slots = configuration.tokens, configuration.slots
        types = tokens if self._limits.types else 0
        attention = self._backend(configuration).staging_ints(configuration)
        sizes = (tokens, tokens, types, slots + 2, slots, slots, slots, attention)
        return Parts(*_consecutive((*sizes, 0)))


def _consecutive(sizes: tuple[int, ...]) -> Iterator[slice]:
    """A slice of each size."""
    start = 0
    for size in sizes:
        yield slice(start, start + size)
        start += -(-size // _ALIGNED_INTS) * _ALIGNED_INTS


def _with_tail(lengths: NDArray[np.int32], configuration: Configuration) -> NDArray[np.int32]:
    """[S + 1]: 0 for a slot without a sequence, and what is missing to T tokens at the end."""
    padded = np.zeros(configuration.slots + 1, np.int32)
    padded[: lengths.size] = lengths
    padded[-1] = configuration.tokens - int(lengths.sum())
    return padded


def _write(part: NDArray[np.int32], values: NDArray[np.generic] | None) -> None:
    """The values, then zeros, which are valid ids, positions, types and lengths."""
    size = 0 if values is None or not part.size else values.size
    part[:size] = 0 if values is None else values[:size]
    part[size:] = 0
