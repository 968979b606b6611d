"""Jobs to one batch, and what became of the batch to one result a job."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.batch import Batch
from transport.messages import Job, JobResult
from worker.isolation import BatchOutput


def pack(jobs: Sequence[Job]) -> Batch:
    """The sequences of all jobs, one after another; `jobs` are of one kind and not empty."""
    if len(jobs) == 1:
        (job,) = jobs
        return Batch(job.kind, job.input_ids, job.lengths, job.type_ids, job.spans)
    type_ids = None
    if any(job.type_ids is not None for job in jobs):
        type_ids = np.concatenate(
            [np.zeros(j.tokens, np.uint8) if j.type_ids is None else j.type_ids for j in jobs]
        )
    return Batch(
        kind=jobs[0].kind,
        input_ids=np.concatenate([job.input_ids for job in jobs]),
        lengths=np.concatenate([job.lengths for job in jobs]),
        type_ids=type_ids,
        spans=_pack_spans(jobs),
    )


def unpack(jobs: Sequence[Job], output: BatchOutput) -> list[JobResult]:
    """The rows of each job; a sequence that failed has none."""
    if not output.failed:
        return _unpack_whole(jobs, output)
    results, start = [], 0
    for job in jobs:
        stop = start + job.sequences
        failed = [(i - start, output.failed[i]) for i in range(start, stop) if i in output.failed]
        offsets = output.row_offsets[start : stop + 1]
        counts = np.diff(offsets)  # rows of each sequence
        fine = np.ones(stop - start, bool)
        fine[[i for i, _ in failed]] = False
        kept = offsets[0] + np.flatnonzero(np.repeat(fine, counts))  # rows that mean something
        results.append(
            JobResult(
                job_id=job.job_id,
                row_offsets=np.concatenate([[0], np.cumsum(counts * fine)]).astype(np.int32),
                rows=output.rows[kept],
                indices=None if output.indices is None else output.indices[kept],
                failed=tuple(failed),
            )
        )
        start = stop
    return results


def _unpack_whole(jobs: Sequence[Job], output: BatchOutput) -> list[JobResult]:
    """As nearly every batch ends. Rows stay where they are."""
    results, start = [], 0
    for job in jobs:
        offsets = output.row_offsets[start : start + job.sequences + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        results.append(
            JobResult(
                job_id=job.job_id,
                row_offsets=offsets - offsets[0],
                rows=output.rows[first:last],
                indices=None if output.indices is None else output.indices[first:last],
            )
        )
        start += job.sequences
    return results


def _pack_spans(jobs: Sequence[Job]) -> NDArray[np.int32] | None:
    """The spans of all jobs [S, 3]; a job without spans pools each sequence whole."""
    if all(job.spans is None for job in jobs):
        return None
    parts, first = [], 0
    for job in jobs:
        spans = job.spans
        if spans is None:
            zeros = np.zeros_like(job.lengths)
            spans = np.stack([np.arange(job.sequences), zeros, job.lengths], axis=1)
        parts.append(np.add(spans, (first, 0, 0), dtype=np.int32))
        first += job.sequences
    return np.concatenate(parts)
