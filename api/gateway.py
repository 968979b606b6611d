"""The middle of a request: tokenize -> admit -> split into jobs -> submit all -> merge."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from api.admission import Refused, admit
from api.catalog import Catalog, CatalogEntry
from api.context import RequestContext
from api.errors import ApiError
from api.model_config import Overrides
from api.sharding import Shard, ShardSize, merge, split
from api.text_encoding import Tokenized
from api.tokenization import TokenizerPool
from checkpoint.spec import ModelSpec
from checkpoint.tokenizer import TextTokenizer
from observability.metrics import Metrics
from observability.request_id import new_id
from transport.messages import Job, JobError, JobResult, Kind, Lane
from transport.protocols import JobClient

Encode = Callable[[TextTokenizer], Tokenized]


@dataclass(frozen=True)
class GatewayConfig:
    max_inputs: int = 2_048
    max_request_tokens: int = 1_048_576
    max_body_bytes: int = 26_214_400
    body_timeout_s: float = 30.0
    max_queue_s: float = 10.0
    bulk_tokens: int = 32_768  # a larger request that asks for no lane is bulk
    max_shard_sequences: int = 512  # what a worker batches at most
    timeout_s: float = 60.0
    max_timeout_s: float = 600.0
    tokenizer_threads: int = 2


@dataclass(frozen=True, eq=False)
class Answer:
    """What the engine made of a request."""

    spec: ModelSpec
    rows: NDArray[np.float32]  # [N, D], in input order
    tokens: int


class Gateway:
    """Source of truth for a request in flight: it holds the inputs until the answer is whole."""

    def __init__(
        self,
        client: JobClient,
        config: GatewayConfig,
        metrics: Metrics,
        overrides: Overrides | None = None,
    ) -> None:
        self.config = config
        self.catalog = Catalog(client, overrides)
        self._client = client
        self._metrics = metrics
        self._tokenizers = TokenizerPool(config.tokenizer_threads)

    async def run(
        self,
        spec: ModelSpec,
        kind: Kind,
        encode: Encode,
        context: RequestContext,
    ) -> Answer:
        """One row for each sequence that `encode` makes, in its order.

        Raises:
            InputError: from `encode`. ApiError: too many tokens. SequenceFailed: one sequence did.
            LimitExceeded: more tokens than the caller may have.
            JobError: no live worker, refused by admission, or the jobs failed.
        """
        self._check_characters(context)
        await self.catalog.require_worker(spec)
        with self._metrics.inflight.labels(spec.id).track_inprogress():
            entry = await self.catalog.entry(spec)
            tokenized = await self._tokenize(entry, encode, context)
            await context.allowance.charge(context.tokens)
            lane = context.lane or self._lane_of(context.tokens)
            await self._admit(spec, lane, context)
            size = ShardSize(spec.shard_tokens, self.config.max_shard_sequences)
            shards = list(split(tokenized, size))
            jobs = self._jobs(spec, kind, shards, lane, context)
            results = await self._submit_all(jobs, context)
            rows = merge(shards, results)
        self._count(spec, kind, context)
        return Answer(spec, rows, context.tokens)

    def close(self) -> None:
        self._tokenizers.close()

    def _check_characters(self, context: RequestContext) -> None:
        """A prompt or an instruction stands before every input: a small body can mean much text."""
        limit = self.config.max_body_bytes
        if context.characters > limit:
            message = f"Prompts and inputs have {context.characters} characters, max {limit}."
            raise ApiError("too_many_tokens", message)

    async def _tokenize(
        self,
        entry: CatalogEntry,
        encode: Encode,
        context: RequestContext,
    ) -> Tokenized:
        started_s = time.perf_counter()
        tokenized = await self._tokenizers.run(
            lambda: encode(entry.tokenizer), context.characters, context.left_s()
        )
        context.stages["tokenize"] = time.perf_counter() - started_s
        encoded = tokenized.encoded
        context.tokens = int(encoded.input_ids.size)
        context.inputs = int(encoded.lengths.size)
        context.truncated = encoded.truncated
        limit = self.config.max_request_tokens
        if context.tokens > limit:
            message = f"Requested {context.tokens} tokens, max {limit} tokens per request"
            raise ApiError("too_many_tokens", message)
        return tokenized

    def _lane_of(self, tokens: int) -> Lane:
        return "bulk" if tokens > self.config.bulk_tokens else "online"

    async def _admit(self, spec: ModelSpec, lane: Lane, context: RequestContext) -> None:
        backlog = await self._client.backlog(spec.id, lane)
        try:
            admit(backlog, self.config.max_queue_s, context.left_s())
        except Refused as refused:
            self._metrics.shed.labels(spec.id, refused.reason).inc()
            raise JobError("overloaded", retry_after_s=refused.retry_after_s) from None

    def _jobs(
        self,
        spec: ModelSpec,
        kind: Kind,
        shards: Sequence[Shard],
        lane: Lane,
        context: RequestContext,
    ) -> list[Job]:
        budget_ms = int(context.left_s() * 1000)
        if budget_ms <= 0:
            raise JobError("deadline")
        return [
            Job(
                job_id=new_id("job_"),
                model=spec.id,
                kind=kind,
                input_ids=shard.input_ids,
                lengths=shard.lengths,
                type_ids=shard.type_ids,
                spans=shard.spans,
                lane=lane,
                budget_ms=budget_ms,
                traceparent=context.trace.traceparent,
            )
            for shard in shards
        ]

    async def _submit_all(self, jobs: Sequence[Job], context: RequestContext) -> list[JobResult]:
        submitted_s = time.perf_counter()
        context.submitted = True
        try:
            results = await self._await_all(jobs)
        except JobError as error:
            if error.code == "overloaded":  # the queue or Redis' memory is full
                self._metrics.shed.labels(jobs[0].model, "full").inc()
            raise
        elapsed_s = time.perf_counter() - submitted_s
        slowest = max(results, key=lambda result: sum(result.timings.values()))
        context.stages |= slowest.timings
        context.stages["reply"] = max(0.0, elapsed_s - sum(slowest.timings.values()))
        return results

    async def _await_all(self, jobs: Sequence[Job]) -> list[JobResult]:
        if len(jobs) == 1:
            return [await self._client.submit(jobs[0])]
        tasks = [asyncio.create_task(self._client.submit(job)) for job in jobs]
        try:
            return await asyncio.gather(*tasks)
        finally:  # the first failure, or the client's departure, makes the others useless
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _count(self, spec: ModelSpec, kind: Kind, context: RequestContext) -> None:
        self._metrics.tokens.labels(spec.id, kind).inc(context.tokens)
        self._metrics.inputs.labels(spec.id, kind).inc(context.inputs)
        self._metrics.request_tokens.labels(spec.id).observe(context.tokens)
        if context.truncated:
            self._metrics.truncated_inputs.labels(spec.id).inc(context.truncated)
