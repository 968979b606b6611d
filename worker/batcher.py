"""Which jobs form the next batch. Pure: no clock, no queue, no tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Batchable(Protocol):
    """What the rule looks at."""

    @property
    def tokens(self) -> int: ...
    @property
    def sequences(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def variant(self) -> str: ...


@dataclass(frozen=True)
class BatchLimits:
    max_batch_tokens: int
    max_batch_sequences: int


def take_batch(waiting: Sequence[Batchable], limits: BatchLimits) -> int:
    """How many jobs, from the front of `waiting`, run together.

    First come first served: the batch ends at the first job that does not fit, so that none is
    overtaken for ever. The first job is always taken, however large: the worker always progresses.
    """
    if not waiting:
        return 0
    first = waiting[0]
    tokens, sequences = first.tokens, first.sequences
    for count, job in enumerate(waiting[1:], start=1):
        tokens += job.tokens
        sequences += job.sequences
        if (
            tokens > limits.max_batch_tokens
            or sequences > limits.max_batch_sequences
            or (job.kind, job.variant) != (first.kind, first.variant)
        ):
            return count
    return len(waiting)
