"""Jobs within one process: one event loop, no server, the messages encoded all the same."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from checkpoint.spec import ModelSpec
from transport.messages import (
    ErrorCode,
    Job,
    JobError,
    JobResult,
    Lane,
    Outcome,
    decode_outcome,
    encode_outcome,
)
from transport.protocols import Announcement, Backlog, Delivery, ServedModel


@dataclass(eq=False)
class _Entry:
    """A submitted job until it is answered."""

    payload: bytes
    job_id: str
    model: str
    tokens: int
    lane: Lane
    submitted_s: float
    deadline_s: float
    answer: asyncio.Future[bytes]


@dataclass(eq=False)
class _Queue:
    waiting: dict[Lane, deque[_Entry]] = field(
        default_factory=lambda: {"online": deque(), "bulk": deque()}
    )
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    bulk_served_s: float = 0.0  # when a bulk job was last taken
    tokens: dict[Lane, int] = field(default_factory=lambda: {"online": 0, "bulk": 0})
    jobs: dict[Lane, int] = field(default_factory=lambda: {"online": 0, "bulk": 0})


class MemoryTransport:
    """Both protocols at once. Not thread-safe: one event loop owns it."""

    def __init__(self, bulk_age_s: float = 2.0) -> None:
        self._bulk_age_s = bulk_age_s
        self._announced: dict[str, Announcement] = {}
        self._served: Mapping[str, ServedModel] = {}  # of those: replaced, never changed
        self._queues: defaultdict[str, _Queue] = defaultdict(_Queue)
        self._outstanding: dict[str, _Entry] = {}
        self._failure: ErrorCode | None = None

    # --- JobClient ---

    async def submit(self, job: Job) -> JobResult:
        if self._failure is not None:
            raise JobError(self._failure)
        if job.model not in self._announced:
            raise JobError("not_ready")
        entry = self._enqueue(job)
        timer = asyncio.get_running_loop().call_at(
            entry.deadline_s, _answer, entry, JobError("deadline")
        )
        try:
            _, outcome = decode_outcome(await entry.answer)
        finally:
            timer.cancel()
            self._settle(job.model, entry)
        if isinstance(outcome, JobError):
            raise outcome
        return outcome

    async def models(self) -> Mapping[str, ServedModel]:
        return self._served

    def live_workers(self, model: str) -> int:
        return int(model in self._announced)

    async def tokenizer(self, sha256: str) -> bytes:
        for announcement in self._announced.values():
            if announcement.spec.tokenizer_sha256 == sha256:
                return announcement.tokenizer_json
        raise KeyError(sha256)

    async def backlog(self, model: str, lane: Lane) -> Backlog:
        announced = self._announced.get(model)
        queue = self._queues[model] if announced else _Queue()
        lanes: tuple[Lane, ...] = ("online",) if lane == "online" else ("online", "bulk")
        return Backlog(
            tokens=sum(queue.tokens[name] for name in lanes),
            tokens_per_s=announced.tokens_per_s if announced else None,
            jobs=sum(queue.jobs[name] for name in lanes),
        )

    async def oldest_s(self, model: str) -> Mapping[Lane, float]:
        now_s = asyncio.get_running_loop().time()
        ages: dict[Lane, float] = {"online": 0.0, "bulk": 0.0}
        for entry in self._outstanding.values():
            if entry.model == model:
                ages[entry.lane] = max(ages[entry.lane], now_s - entry.submitted_s)
        return ages

    # --- JobConsumer ---

    async def announce(self, announcement: Announcement) -> None:
        # Decoded anew, so that nothing reaches the gateway that would not survive the wire.
        spec = ModelSpec.from_json(announcement.spec.to_json())
        self._announced[spec.id] = replace(announcement, spec=spec)
        self._served = {name: ServedModel(a.spec, 1) for name, a in self._announced.items()}

    async def receive(self, model: str, max_tokens: int, wait_s: float) -> list[Delivery]:
        queue = self._queues[model]
        if not any(queue.waiting.values()) and wait_s > 0:
            queue.arrived.clear()
            timer = asyncio.get_running_loop().call_later(wait_s, queue.arrived.set)
            try:
                await queue.arrived.wait()
            finally:
                timer.cancel()
        now_s = asyncio.get_running_loop().time()
        taken: list[Delivery] = []
        tokens = 0
        while (lane := self._next_lane(queue, now_s)) is not None:
            entry = queue.waiting[lane][0]
            wanted = not entry.answer.done()  # else cancelled or expired: `renew` drops it
            if wanted and tokens and tokens + entry.tokens > max_tokens:
                break
            queue.waiting[lane].popleft()
            if wanted:
                tokens += entry.tokens
                if lane == "bulk":
                    queue.bulk_served_s = now_s
            job = Job.decode(entry.payload)
            taken.append(Delivery(job, entry.deadline_s, now_s - entry.submitted_s))
        return taken

    def _next_lane(self, queue: _Queue, now_s: float) -> Lane | None:
        """Online first; bulk fills what is left, and has a turn at least every `bulk_age_s`.

        One job a turn: the shards of a large request are all of one age, and must not stop
        everything else until the last of them has run.
        """
        online, bulk = queue.waiting["online"], queue.waiting["bulk"]
        if not bulk:
            return "online" if online else None
        waited_s = now_s - max(bulk[0].submitted_s, queue.bulk_served_s)
        return "bulk" if not online or waited_s > self._bulk_age_s else "online"

    async def complete(self, delivery: Delivery, outcome: Outcome) -> None:
        entry = self._outstanding.get(delivery.job.job_id)
        if entry is not None:
            _answer(entry, outcome)

    async def renew(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        return [d for d in deliveries if d.job.job_id in self._outstanding]

    async def begin(self, delivery: Delivery) -> bool:
        return delivery.job.job_id in self._outstanding

    async def hand_back(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in reversed(deliveries):
            entry = self._outstanding.get(delivery.job.job_id)
            if entry is not None:
                queue = self._queues[delivery.job.model]
                queue.waiting[entry.lane].appendleft(entry)
                queue.arrived.set()

    async def release(self, model: str) -> None:
        """Nothing is anybody's before it is received."""

    # --- life cycle ---

    def fail(self, code: ErrorCode) -> None:
        """Answer what is outstanding, and what still comes, with an error: the worker is gone."""
        self._failure = code
        for entry in self._outstanding.values():
            _answer(entry, JobError(code))

    @property
    def outstanding(self) -> int:
        """Jobs submitted and not yet answered."""
        return len(self._outstanding)

    def _enqueue(self, job: Job) -> _Entry:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        entry = _Entry(
            payload=job.encode(),
            job_id=job.job_id,
            model=job.model,
            tokens=job.tokens,
            lane=job.lane,
            submitted_s=now_s,
            deadline_s=now_s + job.budget_ms / 1000,
            answer=loop.create_future(),
        )
        queue = self._queues[job.model]
        queue.waiting[job.lane].append(entry)
        queue.tokens[job.lane] += job.tokens
        queue.jobs[job.lane] += 1
        queue.arrived.set()
        self._outstanding[job.job_id] = entry
        return entry

    def _settle(self, model: str, entry: _Entry) -> None:
        queue = self._queues[model]
        queue.tokens[entry.lane] -= entry.tokens
        queue.jobs[entry.lane] -= 1
        del self._outstanding[entry.job_id]
        entry.answer.cancel()  # no effect on an answered job; marks a cancelled one for receive


def _answer(entry: _Entry, outcome: Outcome) -> None:
    """The first answer counts."""
    if not entry.answer.done():
        entry.answer.set_result(encode_outcome(entry.job_id, outcome))
