"""One bad sequence never hurts its neighbours: a batch that raises is split down to the fault."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.batch import Batch
from engine.errors import OutOfMemory
from engine.lazy import StepOutput
from observability.logs import get_logger, place_of
from transport.messages import ErrorCode
from worker.engine_thread import EngineDied

Run = Callable[[Batch], Awaitable[StepOutput]]


@dataclass(eq=False)
class BatchOutput:
    """What became of each sequence of a batch."""

    rows: NDArray[np.float32]  # [N, D]; those of a sequence that is not finite mean nothing
    row_offsets: NDArray[np.int32]  # [B + 1]; a sequence that raised has no rows
    indices: NDArray[np.int32] | None = None  # [N]: sparse only
    failed: dict[int, ErrorCode] = field(default_factory=dict)
    infer_s: float = 0.0
    padded_tokens: int = 0
    steps: int = 1
    out_of_memory: bool = False  # in one of the steps


async def run_isolated(batch: Batch, run: Run) -> BatchOutput:
    """Run a batch; where a step raises, run its halves. A sequence that raises alone has failed.

    With k bad sequences of n this takes about 2 k log2(n) further steps.

    Raises:
        EngineDied: only this; nothing can run any more.
    """
    try:
        output = await run(batch)
    except EngineDied:
        raise
    except Exception as error:
        get_logger().error("step_failed", sequences=batch.sequences, **place_of(error))
        out_of_memory = isinstance(error, OutOfMemory)
        if batch.sequences == 1:
            nothing = np.zeros((0, 0), np.float32)
            return BatchOutput(
                rows=nothing,
                row_offsets=np.zeros(2, np.int32),
                failed={0: "engine_failed"},
                out_of_memory=out_of_memory,
            )
        middle = batch.sequences // 2
        left = await run_isolated(part(batch, 0, middle), run)
        right = await run_isolated(part(batch, middle, batch.sequences), run)
        joined = _join(left, right)
        joined.out_of_memory |= out_of_memory
        return joined
    offsets = output.row_offsets
    return BatchOutput(
        rows=output.rows,
        row_offsets=np.arange(batch.sequences + 1, dtype=np.int32) if offsets is None else offsets,
        indices=output.indices,
        failed={int(i): "non_finite" for i in np.flatnonzero(~output.finite)},
        infer_s=output.timings.get("infer", 0.0),
        padded_tokens=output.padded_tokens,
    )


def part(batch: Batch, start: int, stop: int) -> Batch:
    """Sequences start to stop (exclusive) of a batch."""
    first = int(batch.lengths[:start].sum())
    last = first + int(batch.lengths[start:stop].sum())
    spans = None
    if batch.spans is not None:
        spans = batch.spans[(batch.spans[:, 0] >= start) & (batch.spans[:, 0] < stop)].copy()
        spans[:, 0] -= start
    return Batch(
        kind=batch.kind,
        input_ids=batch.input_ids[first:last],
        lengths=batch.lengths[start:stop],
        type_ids=None if batch.type_ids is None else batch.type_ids[first:last],
        spans=spans,
    )


def _join(left: BatchOutput, right: BatchOutput) -> BatchOutput:
    width = max(left.rows.shape[1], right.rows.shape[1])
    count = len(left.row_offsets) - 1
    parts = [output.indices for output in (left, right) if output.indices is not None]
    return BatchOutput(
        rows=np.concatenate([_widen(left.rows, width), _widen(right.rows, width)]),
        row_offsets=np.concatenate(
            [left.row_offsets, right.row_offsets[1:] + left.row_offsets[-1]]
        ),
        indices=np.concatenate(parts) if parts else None,
        failed=left.failed | {i + count: code for i, code in right.failed.items()},
        infer_s=left.infer_s + right.infer_s,
        padded_tokens=left.padded_tokens + right.padded_tokens,
        steps=left.steps + right.steps,
        out_of_memory=left.out_of_memory or right.out_of_memory,
    )


def _widen(rows: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """A part in which every sequence raised has no rows, and does not know their width."""
    return rows if rows.shape[1] == width else np.zeros((len(rows), width), np.float32)
