"""Which jobs form the next batch. Pure: no clock, no queue, no tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


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


class Waiting(NamedTuple):
    job: Batchable
    alone: bool = False  # it may have ended a process: no other job shares its batch


@dataclass(frozen=True)
class BatchLimits:
    max_batch_tokens: int
    max_batch_sequences: int


def take_batch(waiting: Sequence[Waiting], limits: BatchLimits) -> int:
    """How many jobs, from the front of `waiting`, run together.

    First come first served: the batch ends at the first job that does not fit, so that none is
    overtaken for ever. The first job is always taken, however large: the worker always progresses.
    """
    if not waiting:
        return 0
    first = waiting[0].job
    tokens, sequences = first.tokens, first.sequences
    for count, (job, alone) in enumerate(waiting[1:], start=1):
        tokens += job.tokens
        sequences += job.sequences
        if (
            tokens > limits.max_batch_tokens
            or sequences > limits.max_batch_sequences
            or (job.kind, job.variant) != (first.kind, first.variant)
            or alone
            or waiting[0].alone
        ):
            return count
    return len(waiting)
