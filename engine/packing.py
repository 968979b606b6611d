"""A batch as tensors: sequences in ascending length, one after another, and a dummy tail."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.batch import Batch
from engine.errors import EngineError
from engine.ragged import Ragged

Bucket = Callable[[int], int]  # tokens of a batch -> tokens the engine runs, at least as many


@dataclass(frozen=True, eq=False)
class Spans:
    """S pieces of sequences, in the order of the batch."""

    starts: NDArray[np.int64]  # [S]: the packed token that each begins with
    positions: NDArray[np.int64]  # [S]: the place of that token in its sequence
    lengths: NDArray[np.int64]  # [S], in tokens


@dataclass(frozen=True, eq=False)
class Packed:
    """T tokens: those of B sequences, then dummy ones that answer nothing.

    Layers read the first three. How the tokens are divided into sequences is told in one of two
    ways: to a CPU by `lengths`, `cu_seqlens` and `spans`, where each dummy token is a sequence of
    its own, touches no other and costs attention nothing; to an accelerator by `ragged`.
    """

    input_ids: Tensor  # [T] int32
    position_ids: Tensor  # [T] int32, from 0 in every sequence
    type_ids: Tensor | None  # [T] int32
    # [B] ascending
    lengths: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    # [B + 1], and one more for each dummy token; int64
    cu_seqlens: Tensor = field(default_factory=partial(torch.empty, 0, dtype=torch.int64))
    spans: Spans | None = None
    padded_tokens: int = 0  # of a CPU's; what an accelerator runs knows no lengths
    ragged: Ragged | None = None

    @property
    def tokens(self) -> int:
        """Tokens of the batch, the dummy tail not counted."""
        return self.input_ids.size(0) - self.padded_tokens

    @cached_property
    def groups(self) -> tuple[tuple[int, int], ...]:
        """(sequences, tokens of each), tokens ascending."""
        sizes, counts = np.unique(self.lengths, return_counts=True)
        return tuple(zip(counts.tolist(), sizes.tolist(), strict=True))

    @property
    def parts(self) -> Ragged:
        """`ragged`. Raises EngineError for what was packed for a CPU."""
        if self.ragged is None:
            raise EngineError("tokens packed for a CPU cannot run on an accelerator")
        return self.ragged


@dataclass(frozen=True, eq=False)
class Layout:
    """Where a batch is in what was packed, for who reads the rows."""

    batch: Batch
    row_offsets: NDArray[np.int32] | None  # [B + 1]: of spans; None: one row a sequence
    order: NDArray[np.intp] | None = None  # [B]: row i answers sequence order[i]; None: row i
    source: NDArray[np.int64] | None = None  # [tokens]: row i answers token source[i]; None: row i

    def restore(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """[B, D], a row a sequence, in the order of the batch."""
        return rows if self.order is None else _scattered(rows, self.order)

    def restore_tokens(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """[tokens, D], a row a token, in the order of the batch."""
        return rows if self.source is None else _scattered(rows, self.source)


def row_offsets(batch: Batch) -> NDArray[np.int32] | None:
    """[B + 1]: the spans of each sequence; None: there are none."""
    if batch.spans is None:
        return None
    counts = np.bincount(batch.spans[:, 0], minlength=batch.sequences)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def pack(batch: Batch, bucket: Bucket) -> tuple[Packed, Layout]:
    """Sort the sequences by length, so that equal lengths are neighbours, and pad the total."""
    tokens, padded = batch.tokens, bucket(batch.tokens)
    order = np.argsort(batch.lengths, kind="stable")
    lengths = batch.lengths[order].astype(np.int64)
    starts = (np.cumsum(batch.lengths) - batch.lengths)[order]
    packed_starts = np.cumsum(lengths) - lengths
    positions = np.arange(tokens) - np.repeat(packed_starts, lengths)  # [tokens]
    source = positions + np.repeat(starts, lengths)  # [tokens]
    packed = Packed(
        input_ids=_padded(batch.input_ids[source], padded),
        position_ids=_padded(positions, padded),
        type_ids=None if batch.type_ids is None else _padded(batch.type_ids[source], padded),
        lengths=lengths,
        cu_seqlens=torch.from_numpy(np.append(packed_starts, np.arange(tokens, padded + 1))),
        spans=None if batch.spans is None else _place(batch.spans, order, packed_starts),
        padded_tokens=padded - tokens,
    )
    return packed, Layout(batch, row_offsets(batch), order, source)


def _place(
    spans: NDArray[np.int32], order: NDArray[np.intp], packed_starts: NDArray[np.int64]
) -> Spans:
    sequences, starts, ends = spans.astype(np.int64).T
    sequence_starts = np.empty_like(packed_starts)  # [B], in the order of the batch
    sequence_starts[order] = packed_starts
    return Spans(sequence_starts[sequences] + starts, starts, ends - starts)


def _scattered(rows: NDArray[np.float32], places: NDArray[np.intp]) -> NDArray[np.float32]:
    scattered = np.empty_like(rows)
    scattered[places] = rows
    return scattered


def _padded(values: NDArray[np.generic], size: int) -> Tensor:
    """An int32 tensor of `size`; the dummy tail is all zeros, valid as id, position and type."""
    padded = np.zeros(size, dtype=np.int32)
    padded[: values.size] = values
    return torch.from_numpy(padded)
