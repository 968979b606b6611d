"""What a worker tells of a batch in a trace."""

from collections.abc import Sequence

from engine.batch import Batch
from observability.tracing import TracedBatch, TracedJob
from transport.messages import JobResult
from transport.protocols import Delivery
from worker.isolation import BatchOutput


def is_traced(deliveries: Sequence[Delivery]) -> bool:
    return any(delivery.job.traceparent for delivery in deliveries)


def traced_jobs(deliveries: Sequence[Delivery], results: Sequence[JobResult]) -> list[TracedJob]:
    return [
        TracedJob(
            traceparent=delivery.job.traceparent,
            job_id=delivery.job.job_id,
            tokens=delivery.job.tokens,
            sequences=delivery.job.sequences,
            lane=delivery.job.lane,
            attempt=delivery.attempt,
            waited_s=delivery.waited_s,
            error=result.failed[0][1] if result.failed else "",
        )
        for delivery, result in zip(deliveries, results, strict=True)
    ]


def traced_batch(
    model: str, elapsed_s: float, batch: Batch, output: BatchOutput, jobs: Sequence[TracedJob]
) -> TracedBatch:
    return TracedBatch(
        model=model,
        elapsed_s=elapsed_s,
        infer_s=output.infer_s,
        tokens=batch.tokens,
        padded_tokens=output.padded_tokens,
        sequences=batch.sequences,
        steps=output.steps,
        jobs=jobs,
    )
