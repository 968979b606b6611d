"""The gateway's side: submits, and waits for the answers in a stream of its own."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from redis.exceptions import OutOfMemoryError, ResponseError

from observability.logs import get_logger, place_of
from transport.messages import (
    ErrorCode,
    Job,
    JobError,
    JobResult,
    Lane,
    Outcome,
    WireError,
    decode_outcome,
)
from transport.protocols import Backlog, ServedModel
from transport.redis.announce import Announced, Hearing
from transport.redis.backoff import Backoff
from transport.redis.connections import Connections, RedisConfig
from transport.redis.entries import encode_fields, job_keys, lane_number
from transport.redis.errors import Unreachable, UnsupportedRedis
from transport.redis.events import OnAnswer, OnEvent, ignore, measure_nothing
from transport.redis.keys import GROUP, LANES, model_keys
from transport.redis.mailbox import Listener, Mailbox, MailboxConfig
from transport.redis.outstanding import Outstanding
from transport.redis.queued import QueuesHeard
from transport.redis.replies import Reply, parse_queued
from transport.redis.scripts import OLDEST, SUBMIT, WITHDRAW

_DEDUP_MS = 60_000  # how much longer than its job a dedup key lives


@dataclass(frozen=True)
class ClientConfig:
    mailbox: MailboxConfig = field(default_factory=MailboxConfig)
    max_jobs: int = 10_000  # in one queue
    discovery_s: float = 1.0
    backlog_age_s: float = 0.05  # a younger view of the queues is not asked for again
    backlog_wait_s: float = 0.1  # how long one that is asked for may be waited for
    withdraw_s: float = 0.25  # how long a caller who leaves may be kept for it
    retry_after_s: float = 1.0
    next_worker_s: float = 5.0  # a worker that starts, or takes over, announces itself within that


class RedisJobClient:
    """One gateway process. `start` it, and `close` it."""

    def __init__(
        self,
        redis: RedisConfig,
        config: ClientConfig | None = None,
        on_event: OnEvent = ignore,
        on_answer: OnAnswer = measure_nothing,
    ) -> None:
        """Raises UnsupportedRedis where the URL says nothing that can be used."""
        self.name = uuid4().hex
        self._config = config or ClientConfig()
        self._on_event = on_event
        self._connections = Connections(redis, on_event, on_answer)
        # It is asked more often than Redis may be silent: a longer absence is never overlooked.
        self._deaf_s = self._config.mailbox.healthy_s / 2
        hearing = Hearing(self._takes_heartbeats, self._deaf_s)
        self._announced = Announced(self._connections.commands, hearing)
        self._queues = QueuesHeard(
            self._connections.commands, self._config.backlog_age_s, self._config.backlog_wait_s
        )
        listener = Listener(
            on_reply=self._settle,
            on_unreadable=self._count_unreadable,
            on_broken=self._fail_broken,
            on_loss=self._send_all,
            on_return=self._announced.doubt,
        )
        self._mailbox = Mailbox(self.name, self._connections, self._config.mailbox, listener)
        self._outstanding: dict[str, Outstanding] = {}
        self._withdrawing: set[asyncio.Task[None]] = set()
        self._discovering: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Wait until Redis answers, then know the models. Raises UnsupportedRedis."""
        backoff = Backoff()
        while self._discovering is None:
            try:
                await self._announced.refresh()
                await self._mailbox.open()
            except UnsupportedRedis:
                raise
            except (Unreachable, ResponseError) as error:
                if backoff.failures == 0:
                    get_logger().warning("redis_unreachable", error=str(error))
                await asyncio.sleep(backoff.next_s())
            else:
                self._discovering = asyncio.create_task(self._discover())

    async def close(self) -> None:
        """Leave nothing behind. Whoever still waits gets `not_ready`."""
        await self._mailbox.stop()
        if self._discovering is not None:
            self._discovering.cancel()
            await asyncio.gather(self._discovering, return_exceptions=True)
        for waiting in self._outstanding.values():
            waiting.resolve(JobError("not_ready"))
        while self._outstanding or self._withdrawing:
            await asyncio.gather(*self._withdrawing, asyncio.sleep(0))
        await self._queues.close()
        await self._mailbox.remove()
        await self._connections.close()

    @property
    def healthy(self) -> bool:
        """Whether Redis answered lately."""
        return self._mailbox.healthy

    @property
    def outstanding(self) -> int:
        """Jobs submitted and not yet answered."""
        return len(self._outstanding)

    # --- JobClient ---

    async def submit(self, job: Job) -> JobResult:
        if not self._announced.is_live(job.model) or not self.healthy:
            raise self._error("not_ready")
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + job.budget_ms / 1000
        waiting = Outstanding(job, job.encode(), deadline_s, loop.create_future())
        self._outstanding[job.job_id] = waiting
        waiting.sending = asyncio.create_task(self._send(waiting))
        timer = loop.call_at(deadline_s, waiting.resolve, JobError("deadline"))
        answer: bytes | JobError = JobError("cancelled")
        try:
            answer = await waiting.answer
        finally:
            timer.cancel()
            del self._outstanding[job.job_id]
            if isinstance(answer, JobError):
                await self._withdraw(waiting)
        if isinstance(answer, JobError):
            raise answer
        outcome = self._decode(answer)
        if isinstance(outcome, JobError):
            raise outcome
        return outcome

    async def models(self) -> Mapping[str, ServedModel]:
        return self._announced.models()

    def live_workers(self, model: str) -> int:
        return self._announced.live_workers(model)

    async def tokenizer(self, sha256: str) -> bytes:
        try:
            return await self._announced.tokenizer(sha256)
        except (Unreachable, ResponseError):
            raise self._error("not_ready") from None

    async def backlog(self, model: str, lane: Lane) -> Backlog:
        queued = await self._queues.read(model)
        lanes: tuple[Lane, ...] = ("online",) if lane == "online" else ("online", "bulk")
        return Backlog(
            tokens=sum(queued.tokens[name] for name in lanes),
            tokens_per_s=self._announced.tokens_per_s(model),
            jobs=sum(queued.jobs[name] for name in lanes),
        )

    async def oldest_s(self, model: str) -> Mapping[Lane, float]:
        queues = model_keys(model).queues
        try:
            ages = await OLDEST.run(self._connections.commands, queues)
        except (Unreachable, ResponseError):
            raise self._error("not_ready") from None
        return {lane: age / 1000 for lane, age in zip(LANES, ages, strict=True)}

    # --- the steps of submit ---

    def _decode(self, answer: bytes) -> Outcome:
        try:
            return decode_outcome(answer)[1]
        except WireError as error:
            get_logger().error("reply_of_another_version", error=str(error))
            self._count_unreadable()
            return JobError("engine_failed")

    def _count_unreadable(self) -> None:
        self._on_event("unreadable_reply", "")

    async def _send(self, waiting: Outstanding) -> None:
        """Put the job into its queue, again where Redis forgot it meanwhile."""
        backoff = Backoff()
        while waiting.is_open and waiting.memory != (memory := self._mailbox.memory):
            try:
                entry_id = await self._submit_once(waiting)
            except Unreachable:  # it may be there: the script adds no second one
                await asyncio.sleep(backoff.next_s())
                continue
            except OutOfMemoryError:
                entry_id = ""
            except ResponseError as refusal:
                get_logger().error("submit_refused", model=waiting.job.model, error=str(refusal))
                waiting.resolve(self._error("not_ready"))
                return
            if not entry_id:
                waiting.resolve(self._error("overloaded"))
                return
            waiting.entry_id, waiting.memory = entry_id, memory

    async def _submit_once(self, waiting: Outstanding) -> str:
        """The entry's id; '' where the queue is full. Raises what `Line.execute` raises."""
        job, left_ms, again = waiting.job, waiting.left_ms, waiting.memory is not None
        if again:
            self._on_event("resubmitted", job.model)
        entry_id, queued = await SUBMIT.run(
            self._connections.commands,
            job_keys(job.model, job.job_id),
            *(lane_number(job.lane), "again" if again else "first"),
            *(self._config.max_jobs, left_ms + _DEDUP_MS),
            *encode_fields(job, waiting.frame, self.name, left_ms),
        )
        self._queues.hear(job.model, parse_queued(queued))
        return str(entry_id.decode())

    def _settle(self, reply: Reply) -> None:
        waiting = self._outstanding.get(reply.job_id)
        if waiting is None or not waiting.resolve(reply.frame):
            self._on_event("duplicate_reply", "")
            return
        self._queues.hear(waiting.job.model, reply.queued)

    def _fail_broken(self, job_id: str) -> None:
        """A part of its answer cannot be read, and the entry that could give another is gone."""
        waiting = self._outstanding.get(job_id)
        if waiting is not None:
            waiting.resolve(JobError("engine_failed"))

    def _fail_deserted(self) -> None:
        """Nobody is there who would take these jobs, or finish them."""
        models = {waiting.job.model for waiting in self._outstanding.values()}
        deserted = {model: 0 for model in models if self._announced.is_deserted(model)}
        for waiting in self._outstanding.values() if deserted else ():
            if waiting.job.model in deserted:
                error = JobError("not_ready", retry_after_s=self._config.next_worker_s)
                deserted[waiting.job.model] += waiting.resolve(error)
        for model, jobs in deserted.items():
            if jobs:
                get_logger().warning("model_deserted", model=model, failed_jobs=jobs)

    def _takes_heartbeats(self) -> bool:
        """As it takes what keeps our stream alive."""
        return self._mailbox.written_within(self._deaf_s)

    def _send_all(self) -> None:
        """All that is outstanding, anew. What is on its way looks for itself whether it is lost."""
        for waiting in self._outstanding.values():
            if waiting.sending is None or waiting.sending.done():
                waiting.sending = asyncio.create_task(self._send(waiting))

    async def _withdraw(self, waiting: Outstanding) -> None:
        """Take a job back that nobody waits for. It goes on where the caller does not stay for it.

        A submit that is on its way stands before it on the same line.
        """
        if waiting.sending is not None:
            waiting.sending.cancel()
        withdrawing = asyncio.create_task(self._withdraw_now(waiting))
        self._withdrawing.add(withdrawing)
        withdrawing.add_done_callback(self._withdrawing.discard)
        await asyncio.wait([withdrawing], timeout=self._config.withdraw_s)

    async def _withdraw_now(self, waiting: Outstanding) -> None:
        job = waiting.job
        with contextlib.suppress(Unreachable, ResponseError):  # whoever takes it sees it expired
            queued = await WITHDRAW.run(
                self._connections.commands,
                job_keys(job.model, job.job_id),
                *(lane_number(job.lane), GROUP, waiting.entry_id, job.tokens),
            )
            self._queues.hear(job.model, parse_queued(queued))

    def _error(self, code: ErrorCode) -> JobError:
        return JobError(code, retry_after_s=self._config.retry_after_s)

    async def _discover(self) -> None:
        while True:
            try:
                await self._announced.refresh()
                self._fail_deserted()
            except (Unreachable, ResponseError):
                pass  # the mailbox says so
            except Exception as error:  # no model would be discovered any more
                get_logger().error("discovery_failed", **place_of(error))
            await asyncio.sleep(self._config.discovery_s)
