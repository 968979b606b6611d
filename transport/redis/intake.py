"""How the jobs of one model come to a worker."""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ResponseError

from observability.logs import get_logger
from transport.messages import Job, JobError, Lane, OtherVersionError, WireError
from transport.redis.answers import Answers
from transport.redis.backoff import Backoff
from transport.redis.clock import RedisClock
from transport.redis.entries import Given, QueuedJob, StreamDelivery, parse_entry
from transport.redis.errors import Unreachable
from transport.redis.failing import Failing
from transport.redis.held import HeldDeliveries
from transport.redis.keys import GROUP, KEEP_S, LANES, model_keys
from transport.redis.line import Line
from transport.redis.reclaim import Claimant, claim_silent, give_back, recover_own
from transport.redis.scripts import JOIN, TAKE


@dataclass(frozen=True)
class IntakeConfig:
    lease_s: float = 8.0  # a delivery that nobody renewed for so long is another's to claim
    scan_s: float = 1.0  # how often a worker with room looks for such
    bulk_age_s: float = 2.0
    max_deliveries: int = 3  # the last is not run: whoever ran the others died
    max_claimed: int = 8  # jobs claimed at once: other workers have room too


@dataclass(frozen=True, eq=False)
class IntakeLinks:
    """What the intakes of all models share."""

    commands: Line
    clock: RedisClock
    held: HeldDeliveries
    answers: Answers
    worker: str
    block_s: float  # the longest that one blocking read waits


class Intake:
    """Takes no more than was asked for: what does not fit is for other workers."""

    def __init__(self, model: str, line: Line, links: IntakeLinks, config: IntakeConfig) -> None:
        """What gives us jobs goes over `line`, which sends nothing twice: see `_in_doubt`."""
        self.model = model
        self._queues = model_keys(model).queues
        self._line = line
        self._links = links
        self._config = config
        self._ready: deque[StreamDelivery] = deque()  # ours, not given out: claimed, or too large
        self._others: dict[str, int] = {}  # entries that we cannot read, and their deadlines, ms
        self._has_groups = False
        self._in_doubt = False  # an answer was lost: entries may be ours without our knowing
        self._bulk_served_ms = 0  # by Redis' clock
        self._scan_at_s = 0.0
        self._backoff = Backoff()
        self.failing = Failing()

    async def receive(self, max_tokens: int, wait_s: float) -> list[StreamDelivery]:
        """As `JobConsumer.receive`. Never raises for Redis: it is empty while there is none."""
        taken: list[StreamDelivery] = []
        try:
            await self._prepare()
            taken += self._take_ready(max_tokens)
            room = max_tokens - sum(delivery.job.tokens for delivery in taken)
            if room > 0:
                taken += await self._take(room, always=not taken)
            if not taken and wait_s > 0:
                self._ready += await self._wait(wait_s)
                taken += self._take_ready(max_tokens)
            self._backoff.reset()
            self.failing.succeeded()
        except (Unreachable, ResponseError) as error:
            known, self._in_doubt = self._in_doubt, True
            self.failing.failed()
            if str(error).startswith("NOGROUP"):  # Redis lost what it had
                self._has_groups = False
                return taken
            if not known:
                get_logger().warning("receive_failed", model=self.model, error=str(error))
            if not taken:
                await asyncio.sleep(min(wait_s, self._backoff.next_s()))
        return taken

    async def ensure_groups(self) -> None:
        """Raises what `Line.execute` raises."""
        if not self._has_groups:
            await JOIN.run(self._links.commands, self._queues, GROUP, KEEP_S)
            self._has_groups = True

    def drain_ready(self) -> list[StreamDelivery]:
        """What is ours and was never given out."""
        ready, self._ready = list(self._ready), deque()
        return ready

    # --- the steps of receive ---

    async def _prepare(self) -> None:
        await self.ensure_groups()
        links = self._links
        if self._in_doubt:
            await links.clock.calibrate(links.commands, forget=True)
            self._ready += await self._deliver(await recover_own(self._claimant()))
            self._in_doubt = False
        if asyncio.get_running_loop().time() >= self._scan_at_s and not self._ready:
            await self._claim()

    async def _claim(self) -> None:
        """Of deliveries whose worker fell silent."""
        links, config = self._links, self._config
        lease_ms = int(config.lease_s * 1000)
        claimed = await claim_silent(self._claimant(), lease_ms, config.max_claimed)
        # There may be more: the next call looks at once. Else at a time of our own.
        wait_s = 0.0 if len(claimed) == config.max_claimed else config.scan_s
        now_s = asyncio.get_running_loop().time()
        self._scan_at_s = now_s + wait_s * random.uniform(0.5, 1.5)  # noqa: S311
        for _ in claimed:
            links.answers.on_event("redelivered", self.model)
        self._ready += await self._deliver(claimed)

    def _claimant(self) -> Claimant:
        held = {entry_id for queue in self._queues for entry_id in self._links.held.ids(queue)}
        now_ms = self._links.clock.now_ms()
        self._others = {entry: ends for entry, ends in self._others.items() if ends > now_ms}
        return Claimant(self._line, self.model, self._links.worker, held | self._others.keys())

    def _take_ready(self, max_tokens: int) -> list[StreamDelivery]:
        taken: list[StreamDelivery] = []
        room = max_tokens
        while self._ready and (not taken or self._ready[0].job.tokens <= room):
            delivery = self._ready.popleft()
            room -= delivery.job.tokens
            taken.append(delivery)
        return taken

    async def _take(self, room: int, always: bool) -> list[StreamDelivery]:
        now_ms, bulk_first, online, bulk = await TAKE.run(
            self._line,
            self._queues,
            *(GROUP, self._links.worker, room, int(always)),
            *(self._bulk_served_ms, int(self._config.bulk_age_s * 1000)),
        )
        if bulk:
            self._bulk_served_ms = now_ms
        first, last = bulk[:bulk_first], bulk[bulk_first:]
        in_turn: tuple[tuple[Lane, Any], ...] = (
            ("bulk", first),
            ("online", online),
            ("bulk", last),
        )
        return await self._deliver(Given(lane, raw) for lane, raws in in_turn for raw in raws)

    async def _wait(self, wait_s: float) -> list[StreamDelivery]:
        """The next job of either lane, as soon as it comes."""
        loop = asyncio.get_running_loop()
        until_s, found = loop.time() + wait_s, None
        while not found and (left_s := until_s - loop.time()) > 0:
            block_ms = max(1, int(1000 * min(left_s, self._links.block_s)))  # 0 would be for ever
            found = await self._line.execute(
                *("XREADGROUP", "GROUP", GROUP, self._links.worker),
                *("COUNT", 1, "BLOCK", block_ms, "STREAMS", *self._queues, ">", ">"),
            )
        lanes = dict(zip(self._queues, LANES, strict=True))
        return await self._deliver(
            Given(lanes[queue.decode()], raw) for queue, raws in found or () for raw in raws
        )

    async def _deliver(self, given: Iterable[Given]) -> list[StreamDelivery]:
        """What can be run of it. The rest is answered here: no entry comes to a worker for ever."""
        answers, deliveries = self._links.answers, []
        for one in given:
            try:
                queued = parse_entry(self.model, one)
            except ValueError:
                await self._drop(one)
                continue
            if one.attempt >= self._config.max_deliveries:
                await answers.give_up(queued, one.attempt)
                continue
            try:
                deliveries.append(self._delivery(queued, one.attempt))
            except OtherVersionError as error:
                get_logger().warning("job_of_another_version", model=self.model, error=str(error))
                await self._leave(queued, one.attempt)
            except WireError as error:
                get_logger().error("job_unreadable", model=self.model, error=str(error))
                await answers.send(queued.entry, JobError("invalid"))
        return deliveries

    def _delivery(self, queued: QueuedJob, attempt: int) -> StreamDelivery:
        """Raises WireError."""
        clock = self._links.clock
        delivery = StreamDelivery(
            job=Job.decode(queued.frame),
            deadline_s=clock.loop_s(queued.deadline_ms),
            waited_s=max(0.0, clock.now_ms() - queued.entry.submitted_ms) / 1000,
            attempt=attempt,
            entry=queued.entry,
        )
        self._links.held.add(delivery)
        return delivery

    async def _leave(self, queued: QueuedJob, attempt: int) -> None:
        """Let a worker of the job's version claim it. When its time is over, anyone forgets it."""
        entry, links = queued.entry, self._links
        if queued.deadline_ms <= links.clock.now_ms():
            await links.answers.send(entry, JobError("deadline"))
            return
        self._others[entry.id] = queued.deadline_ms
        with contextlib.suppress(Unreachable, ResponseError):  # its lease runs out
            await give_back(self._line, entry.queue, links.worker, entry.id, attempt)

    async def _drop(self, given: Given) -> None:
        """An entry that no gateway of ours wrote: there is nobody to answer."""
        get_logger().error("entry_unreadable", model=self.model)
        queue, entry_id = self._queues[LANES.index(given.lane)], given.raw[0]
        remove = [("XACK", queue, GROUP, entry_id), ("XDEL", queue, entry_id)]
        with contextlib.suppress(Unreachable):  # its lease runs out
            await self._line.execute_all(remove)
