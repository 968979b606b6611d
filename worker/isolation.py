"""One bad sequence never hurts its neighbours: a batch that raises is split down to the fault."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.batch import Batch
from engine.lazy import StepOutput
from transport.messages import ErrorCode
from worker.engine_thread import EngineDied

Run = Callable[[Batch], Awaitable[StepOutput]]


@dataclass(eq=False)
class BatchOutput:
    """What became of each sequence of a batch."""

    rows: NDArray[np.float32]  # [B, D]; a failed sequence's row is meaningless
    failed: dict[int, ErrorCode] = field(default_factory=dict)
    infer_s: float = 0.0
    padded_tokens: int = 0
    steps: int = 1


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
    except Exception:
        if batch.sequences == 1:
            return BatchOutput(np.zeros((1, 0), np.float32), {0: "engine_failed"})
        middle = batch.sequences // 2
        left = await run_isolated(_part(batch, 0, middle), run)
        right = await run_isolated(_part(batch, middle, batch.sequences), run)
        return _join(left, right)
    return BatchOutput(
        rows=output.rows,
        failed={int(i): "non_finite" for i in np.flatnonzero(~output.finite)},
        infer_s=output.timings.get("infer", 0.0),
        padded_tokens=output.padded_tokens,
    )


def _part(batch: Batch, start: int, stop: int) -> Batch:
    first = int(batch.lengths[:start].sum())
    last = first + int(batch.lengths[start:stop].sum())
    return Batch(
        kind=batch.kind,
        input_ids=batch.input_ids[first:last],
        lengths=batch.lengths[start:stop],
        type_ids=None if batch.type_ids is None else batch.type_ids[first:last],
    )


def _join(left: BatchOutput, right: BatchOutput) -> BatchOutput:
    width = max(left.rows.shape[1], right.rows.shape[1])
    return BatchOutput(
        rows=np.concatenate([_widen(left.rows, width), _widen(right.rows, width)]),
        failed=left.failed | {i + len(left.rows): code for i, code in right.failed.items()},
        infer_s=left.infer_s + right.infer_s,
        padded_tokens=left.padded_tokens + right.padded_tokens,
        steps=left.steps + right.steps,
    )


def _widen(rows: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """A part in which every sequence failed does not know the width of a row."""
    return rows if rows.shape[1] == width else np.zeros((len(rows), width), np.float32)
