"""A request's sequences cut into jobs of bounded tokens, and what comes back put together."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from api.text_encoding import Tokenized
from checkpoint.encoded import Encoded
from transport.messages import ErrorCode, JobResult


class ShardSize(NamedTuple):
    tokens: int
    sequences: int


class Shard(NamedTuple):
    """Sequences `first` and on, of a request."""

    first: int
    input_ids: NDArray[np.int32]  # [T]
    lengths: NDArray[np.int32]  # [B]
    type_ids: NDArray[np.uint8] | None  # [T]
    spans: NDArray[np.int32] | None = None  # [B, 3]


class SequenceFailed(Exception):
    """One sequence has no row, so the request has no answer."""

    def __init__(self, index: int, code: ErrorCode) -> None:
        super().__init__(f"sequence {index}: {code}")
        self.index = index
        self.code = code


def concatenate(parts: Sequence[Tokenized]) -> Tokenized:
    """Several requests' sequences as one, in their order."""
    if len(parts) == 1:
        return parts[0]
    encoded = [part.encoded for part in parts]
    types = [(e.type_ids, np.zeros_like(e.input_ids, np.uint8)) for e in encoded]
    skips = [(p.prompt_tokens, np.zeros_like(p.encoded.lengths)) for p in parts]
    return Tokenized(
        Encoded(
            input_ids=np.concatenate([e.input_ids for e in encoded]),
            lengths=np.concatenate([e.lengths for e in encoded]),
            type_ids=_join(types),
            truncated=sum(e.truncated for e in encoded),
        ),
        _join(skips),
    )


def _join(parts: Sequence[tuple[NDArray[Any] | None, NDArray[Any]]]) -> NDArray[Any] | None:
    """Each array, or what stands for one that is absent; None where all are."""
    if all(array is None for array, _ in parts):
        return None
    return np.concatenate([default if array is None else array for array, default in parts])


def split(tokenized: Tokenized, size: ShardSize) -> Iterator[Shard]:
    """Shards in input order, each within `size` or of one longer sequence."""
    encoded, skips = tokenized.encoded, tokenized.prompt_tokens
    lengths = encoded.lengths
    if encoded.input_ids.size <= size.tokens and 0 < lengths.size <= size.sequences:
        spans = None if skips is None else _spans(skips, lengths)
        yield Shard(0, encoded.input_ids, lengths, encoded.type_ids, spans)
        return
    ends = np.cumsum(encoded.lengths, dtype=np.int64)
    first, start, count = 0, 0, len(encoded.lengths)
    while first < count:
        fitting = int(np.searchsorted(ends, start + size.tokens, side="right"))
        last = max(min(fitting, first + size.sequences), first + 1)
        stop = int(ends[last - 1])
        types, lengths = encoded.type_ids, encoded.lengths[first:last]
        yield Shard(
            first,
            encoded.input_ids[start:stop],
            lengths,
            None if types is None else types[start:stop],
            None if skips is None else _spans(skips[first:last], lengths),
        )
        first, start = last, stop


def _spans(skips: NDArray[np.int32], lengths: NDArray[np.int32]) -> NDArray[np.int32]:
    """One span a sequence, from behind its prompt to its end: [B, 3]."""
    return np.stack([np.arange(len(lengths), dtype=np.int32), skips, lengths], axis=1)


def merge(shards: Sequence[Shard], results: Sequence[JobResult]) -> NDArray[np.float32]:
    """One row a sequence, in input order: [B, D].

    Raises:
        SequenceFailed: for the first sequence that failed.
    """
    for shard, result in zip(shards, results, strict=True):
        if result.failed:
            index, code = min(result.failed)
            raise SequenceFailed(shard.first + index, code)
    if len(results) == 1:
        return results[0].rows
    return np.concatenate([result.rows for result in results])
