"""Jobs and announcements for the transport tests."""

import itertools
from typing import Any

import numpy as np

from checkpoint.spec import ModelSpec
from transport.messages import Job, JobResult
from transport.protocols import Announcement

MODEL = "m"
_ids = itertools.count()


def make_spec(**changes: Any) -> ModelSpec:
    values: dict[str, Any] = {
        "id": MODEL,
        "task": "embed",
        "family": "bert",
        "dim": 4,
        "max_tokens": 256,
        "max_tokens_source": "config.json",
        "vocab_size": 1000,
        "tokenizer_sha256": "ab" * 32,
        "revision": "r1",
        "aliases": ("short",),
        "matryoshka": (2,),
        "pooling": "mean",
        "prompts": {"query": "query: "},
        "calibration": ((0.0, 1.0),) * 4,
        "runtime": {"device": "cpu"},
    }
    return ModelSpec(**(values | changes))


def make_announcement(tokens_per_s: float | None = None, **changes: Any) -> Announcement:
    return Announcement(make_spec(**changes), b'{"tokenizer": true}', tokens_per_s)


def make_job(lengths: tuple[int, ...] = (3,), **changes: Any) -> Job:
    tokens = sum(lengths)
    values: dict[str, Any] = {
        "job_id": f"job-{next(_ids)}",
        "model": MODEL,
        "kind": "embed",
        "input_ids": np.arange(tokens, dtype=np.int32),
        "lengths": np.asarray(lengths, np.int32),
    }
    return Job(**(values | changes))


def make_result(job: Job, value: float = 1.0) -> JobResult:
    count = job.sequences
    return JobResult(
        job_id=job.job_id,
        row_offsets=np.arange(count + 1, dtype=np.int32),
        rows=np.full((count, 4), value, np.float32),
        worker="w1",
    )
