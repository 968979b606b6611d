"""A request's sequences cut into jobs of bounded tokens, and what comes back put together."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkpoint.tokenizer import Encoded
from transport.messages import ErrorCode, JobResult


class Shard(NamedTuple):
    """Sequences `first` and on, of a request."""

    first: int
    input_ids: NDArray[np.int32]  # [T]
    lengths: NDArray[np.int32]  # [B]
    type_ids: NDArray[np.uint8] | None  # [T]


class SequenceFailed(Exception):
    """One sequence has no row, so the request has no answer."""

    def __init__(self, index: int, code: ErrorCode) -> None:
        super().__init__(f"sequence {index}: {code}")
        self.index = index
        self.code = code


def concatenate(parts: Sequence[Encoded]) -> Encoded:
    """Several encodings as one, in their order."""
    if len(parts) == 1:
        return parts[0]
    type_ids = None
    if any(part.type_ids is not None for part in parts):
        type_ids = np.concatenate(
            [
                np.zeros_like(p.input_ids, np.uint8) if p.type_ids is None else p.type_ids
                for p in parts
            ]
        )
    return Encoded(
        input_ids=np.concatenate([part.input_ids for part in parts]),
        lengths=np.concatenate([part.lengths for part in parts]),
        type_ids=type_ids,
        truncated=sum(part.truncated for part in parts),
    )


def split(encoded: Encoded, shard_tokens: int) -> Iterator[Shard]:
    """Shards in input order, each of at most `shard_tokens` or of one longer sequence."""
    ends = np.cumsum(encoded.lengths, dtype=np.int64)
    first, start, count = 0, 0, len(encoded.lengths)
    while first < count:
        fitting = int(np.searchsorted(ends, start + shard_tokens, side="right"))
        last = max(fitting, first + 1)
        stop = int(ends[last - 1])
        types = encoded.type_ids
        yield Shard(
            first,
            encoded.input_ids[start:stop],
            encoded.lengths[first:last],
            None if types is None else types[start:stop],
        )
        first, start = last, stop


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
