"""The gateway's side: submits, and waits for the answers in a stream of its own."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import uuid4

from redis.exceptions import OutOfMemoryError, ResponseError

from observability.logs import get_logger
from transport.messages import Job, JobError, JobResult, Lane, decode_outcome
from transport.protocols import Backlog, ServedModel
from transport.redis.announce import Announced
from transport.redis.backoff import Backoff
from transport.redis.connections import Connections, RedisConfig
from transport.redis.entries import encode_fields, job_keys, lane_number
from transport.redis.errors import Unreachable, UnsupportedRedis
from transport.redis.events import OnEvent, ignore
from transport.redis.keys import GROUP, model_keys, reply_key
from transport.redis.line import Argument, Line, Server
from transport.redis.outstanding import Outstanding
from transport.redis.replies import Assembly, Queued, Reply, parse_queued
from transport.redis.scripts import BACKLOG, SUBMIT, WITHDRAW


@dataclass(frozen=True)
class ClientConfig:
    max_jobs: int = 10_000  # in one queue
    keep_alive_s: float = 1.0  # how often Redis is asked whether it still knows us
    reply_ttl_s: int = 60  # what a dead gateway leaves behind
    discovery_s: float = 1.0
    backlog_age_s: float = 0.05  # a younger view of the queues is not asked for again
    healthy_s: float = 5.0  # how old the last answer of Redis may be
    withdraw_s: float = 0.25  # how long a caller who leaves may be kept for it
    retry_after_s: float = 1.0


class RedisJobClient:
    """One gateway process. `start` it, and `close` it."""

    def __init__(
        self,
        redis: RedisConfig,
        config: ClientConfig | None = None,
        on_event: OnEvent = ignore,
    ) -> None:
        self.name = uuid4().hex
        self._config = config or ClientConfig()
        self._on_event = on_event
        self._connections = Connections(redis, on_event)
        self._announced = Announced(self._connections.commands)
        self._outstanding: dict[str, Outstanding] = {}
        self._queued: dict[str, tuple[Queued, float]] = {}  # by model, and when it was heard
        self._assembly = Assembly()
        self._memory = 0  # grows with each memory that Redis lost
        self._run_id = ""  # of the server that was last heard
        self._read_until = b"0-0"
        self._answered_s = float("-inf")  # when Redis last answered the keep-alive
        self._withdrawing: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Wait until Redis answers, then know the models. Raises UnsupportedRedis."""
        backoff = Backoff()
        while not self.healthy:
            try:
                await self._make_reply_stream()
                await self._announced.refresh()
                self._answered_s = asyncio.get_running_loop().time()
            except UnsupportedRedis:
                raise
            except (Unreachable, ResponseError) as error:
                if backoff.failures == 0:
                    get_logger().warning("redis_unreachable", error=str(error))
                await asyncio.sleep(backoff.next_s())
        self._tasks = [
            asyncio.create_task(self._keep_alive()),
            asyncio.create_task(self._read_replies()),
            asyncio.create_task(self._discover()),
        ]

    async def close(self) -> None:
        """Leave nothing behind. Whoever still waits gets `not_ready`."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for waiting in self._outstanding.values():
            waiting.resolve(JobError("not_ready"))
        while self._outstanding or self._withdrawing:
            await asyncio.gather(*self._withdrawing, asyncio.sleep(0))
        with contextlib.suppress(Unreachable, ResponseError):
            await self._connections.commands.execute("DEL", reply_key(self.name))
        await self._connections.close()

    @property
    def healthy(self) -> bool:
        """Whether Redis answered lately."""
        now_s = asyncio.get_running_loop().time()
        return now_s - self._answered_s < self._config.healthy_s

    @property
    def outstanding(self) -> int:
        """Jobs submitted and not yet answered."""
        return len(self._outstanding)

    # --- JobClient ---

    async def submit(self, job: Job) -> JobResult:
        if not self._announced.is_live(job.model) or not self.healthy:
            raise JobError("not_ready", retry_after_s=self._config.retry_after_s)
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
        _, outcome = decode_outcome(answer)
        if isinstance(outcome, JobError):
            raise outcome
        return outcome

    async def models(self) -> Mapping[str, ServedModel]:
        return self._announced.models()

    async def tokenizer(self, sha256: str) -> bytes:
        try:
            return await self._announced.tokenizer(sha256)
        except (Unreachable, ResponseError):
            raise JobError("not_ready", retry_after_s=self._config.retry_after_s) from None

    async def backlog(self, model: str, lane: Lane) -> Backlog:
        queued = await self._what_is_queued(model)
        lanes: tuple[Lane, ...] = ("online",) if lane == "online" else ("online", "bulk")
        return Backlog(
            tokens=sum(queued.tokens[name] for name in lanes),
            tokens_per_s=self._announced.tokens_per_s(model),
            jobs=sum(queued.jobs[name] for name in lanes),
        )

    # --- the steps of submit ---

    async def _send(self, waiting: Outstanding) -> None:
        """Put the job into its queue, again where Redis forgot it meanwhile."""
        backoff = Backoff()
        while waiting.is_open and waiting.memory != self._memory:
            memory = self._memory
            try:
                entry_id = await self._submit_once(waiting)
            except Unreachable:
                await asyncio.sleep(backoff.next_s())
                continue
            except OutOfMemoryError:
                waiting.resolve(self._overloaded())
                return
            except ResponseError as refusal:
                get_logger().error("submit_refused", model=waiting.job.model, error=str(refusal))
                waiting.resolve(JobError("not_ready", retry_after_s=self._config.retry_after_s))
                return
            if not entry_id:
                waiting.resolve(self._overloaded())
                return
            waiting.entry_id, waiting.memory = entry_id, memory

    async def _submit_once(self, waiting: Outstanding) -> str:
        job, left_ms = waiting.job, waiting.left_ms
        first = waiting.memory is None
        if not first:
            self._on_event("resubmitted", job.model)
        entry_id, queued = await SUBMIT.run(
            self._connections.commands,
            job_keys(job.model, job.job_id),
            lane_number(job.lane),
            "first" if first else "again",
            self._config.max_jobs,
            left_ms + 60_000,
            *encode_fields(job, waiting.frame, self.name, left_ms),
        )
        self._hear(job.model, parse_queued(queued))
        return str(entry_id.decode())

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
        with contextlib.suppress(Unreachable, ResponseError):
            queued = await WITHDRAW.run(
                self._connections.commands,
                job_keys(job.model, job.job_id),
                *(lane_number(job.lane), GROUP, waiting.entry_id, job.tokens),
            )
            self._hear(job.model, parse_queued(queued))

    async def _what_is_queued(self, model: str) -> Queued:
        loop = asyncio.get_running_loop()
        known = self._queued.get(model)
        if known is not None and loop.time() - known[1] < self._config.backlog_age_s:
            return known[0]
        keys = model_keys(model)
        try:
            text = await BACKLOG.run(self._connections.commands, (*keys.queues, *keys.tokens))
        except (Unreachable, ResponseError):
            nothing: dict[Lane, int] = {"online": 0, "bulk": 0}
            return known[0] if known else Queued(0, nothing, nothing)
        self._hear(model, parse_queued(text))
        return self._queued[model][0]

    def _hear(self, model: str, queued: Queued) -> None:
        """Answers come over several lines, and not always in order."""
        known = self._queued.get(model)
        if known is None or queued.time_us >= known[0].time_us:
            self._queued[model] = (queued, asyncio.get_running_loop().time())

    def _overloaded(self) -> JobError:
        return JobError("overloaded", retry_after_s=self._config.retry_after_s)

    # --- what runs beside it ---

    async def _read_replies(self) -> None:
        line, backoff = self._connections.blocking(), Backoff()
        while True:
            try:
                await self._remember(await line.connect())
                await self._read_some(line)
                backoff.reset()
            except (Unreachable, ResponseError) as error:
                if backoff.failures == 0:
                    get_logger().warning("replies_unreachable", error=str(error))
                await asyncio.sleep(backoff.next_s())

    async def _read_some(self, line: Line) -> None:
        """Wait for replies, and trim what was read by the same write that waits for more."""
        stream, block_ms = reply_key(self.name), int(self._connections.config.block_s * 1000)
        memory = self._memory
        trimmed, found = await line.execute_all(
            [
                ("XTRIM", stream, "MINID", _next_id(self._read_until)),
                ("XREAD", "BLOCK", block_ms, "STREAMS", stream, self._read_until),
            ]
        )
        for answer in (trimmed, found):
            if isinstance(answer, ResponseError):
                raise answer
        if memory != self._memory:  # the stream has begun anew meanwhile, and is read from there
            return
        for _, entries in found or ():
            for entry_id, fields in entries:
                self._read_until = entry_id
                for reply in self._assembly.add(fields):
                    self._settle(reply)

    def _settle(self, reply: Reply) -> None:
        waiting = self._outstanding.get(reply.job_id)
        if waiting is None or not waiting.resolve(reply.frame):
            self._on_event("duplicate_reply", "")
            return
        self._hear(waiting.job.model, reply.queued)

    async def _keep_alive(self) -> None:
        line = self._connections.health
        while True:
            with contextlib.suppress(Unreachable, ResponseError):
                await self._remember(await line.connect())
                if not await line.execute(*self._expire()):
                    await self._recover()
                self._answered_s = asyncio.get_running_loop().time()
            await asyncio.sleep(self._config.keep_alive_s)

    async def _remember(self, server: Server) -> None:
        """Another server has another memory: it may hold our stream, and lack our jobs."""
        if self._run_id not in ("", server.run_id):
            await self._recover()
        self._run_id = server.run_id

    async def _recover(self) -> None:
        """Redis forgot us, or is another: have a stream again, and everything outstanding in it."""
        get_logger().warning("redis_lost_its_memory", outstanding=len(self._outstanding))
        self._memory += 1
        self._read_until = b"0-0"
        self._assembly.clear()
        await self._make_reply_stream()
        for waiting in self._outstanding.values():
            if waiting.sending is None or waiting.sending.done():
                waiting.sending = asyncio.create_task(self._send(waiting))

    async def _make_reply_stream(self) -> None:
        """A group is what makes a stream without entries."""
        line, stream = self._connections.health, reply_key(self.name)
        try:
            await line.execute("XGROUP", "CREATE", stream, "x", "0", "MKSTREAM")
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
        await line.execute(*self._expire())

    def _expire(self) -> tuple[Argument, ...]:
        return ("EXPIRE", reply_key(self.name), self._config.reply_ttl_s)

    async def _discover(self) -> None:
        while True:
            with contextlib.suppress(Unreachable, ResponseError):
                await self._announced.refresh()
            await asyncio.sleep(self._config.discovery_s)


def _next_id(entry_id: bytes) -> str:
    milliseconds, sequence = entry_id.decode().split("-")
    return f"{milliseconds}-{int(sequence) + 1}"
