"""Sequences as the engine wants them: packed, without padding, in arrays."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkpoint.layout import Run

Ids = NDArray[np.int32]  # of one text


@dataclass(frozen=True, eq=False)
class Encoded:
    """Sequences one after another, special tokens included. B may be 0, a length may not."""

    input_ids: NDArray[np.int32]  # [T]
    lengths: NDArray[np.int32]  # [B]
    type_ids: NDArray[np.uint8] | None  # [T]; None: all zero
    truncated: int  # sequences that lost tokens


@dataclass(frozen=True)
class Frame:
    """What stands around every text of a call, a pair's query included."""

    before: Run
    text_type: int  # the token type of the text itself
    after: Run

    @property
    def tokens(self) -> int:
        return len(self.before.ids) + len(self.after.ids)


def pack(frame: Frame, texts: Sequence[Ids], truncated: int) -> Encoded:
    """One sequence for the ids of each text."""
    lengths = np.fromiter(map(len, texts), np.int32, len(texts)) + np.int32(frame.tokens)  # [B]
    before, after = np.array(frame.before.ids, np.int32), np.array(frame.after.ids, np.int32)
    parts = [part for ids in texts for part in (before, ids, after)]
    input_ids = np.concatenate(parts) if parts else np.empty(0, np.int32)  # [T]
    return Encoded(input_ids, lengths, _type_ids(frame, lengths, input_ids.size), truncated)


def _type_ids(
    frame: Frame, lengths: NDArray[np.int32], total: int
) -> NDArray[np.uint8] | None:  # [T]
    if not any((*frame.before.types, frame.text_type, *frame.after.types)):
        return None
    type_ids = np.full(total, frame.text_type, np.uint8)
    ends = np.cumsum(lengths, dtype=np.int64)[:, None]  # [B, 1]
    starts = ends - lengths[:, None]
    before = np.array(frame.before.types, np.uint8)
    after = np.array(frame.after.types, np.uint8)
    type_ids[starts + np.arange(before.size)] = before
    type_ids[ends - after.size + np.arange(after.size)] = after
    return type_ids
