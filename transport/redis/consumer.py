"""The worker's side: takes jobs while it has room, keeps them, answers them."""

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from redis.exceptions import ResponseError

from observability.logs import get_logger
from transport.messages import Outcome
from transport.protocols import Announcement, Delivery
from transport.redis.announce import DEAD_AFTER_MS, Announcer
from transport.redis.answers import Answers
from transport.redis.backoff import Backoff
from transport.redis.clock import RedisClock
from transport.redis.connections import Connections, RedisConfig
from transport.redis.entries import StreamDelivery
from transport.redis.errors import Unreachable, UnsupportedRedis
from transport.redis.events import OnAnswer, OnEvent, ignore, measure_nothing
from transport.redis.failing import Failing
from transport.redis.held import HeldDeliveries, by_queue
from transport.redis.intake import Intake, IntakeConfig, IntakeLinks
from transport.redis.keys import GROUP, model_keys
from transport.redis.reclaim import count_attempt, give_back, renew
from transport.redis.scripts import REAP

_CLAIMED_AT_ONCE = 200  # ids in one command


@dataclass(frozen=True)
class ConsumerConfig:
    intake: IntakeConfig = field(default_factory=IntakeConfig)
    renew_s: float = 2.5  # three times within a lease
    reap_s: float = 30.0
    healthy_s: float = 5.0  # how old the last answer of Redis may be, and how long work may fail


class RedisJobConsumer:
    """One worker process, of one or several models. `start` it, and `close` it."""

    def __init__(
        self,
        redis: RedisConfig,
        name: str,
        config: ConsumerConfig | None = None,
        on_event: OnEvent = ignore,
        on_answer: OnAnswer = measure_nothing,
    ) -> None:
        """`name` must be new with every start of the process: it owns deliveries."""
        self.name = name
        self._config = config or ConsumerConfig()
        self._connections = Connections(redis, on_event, on_answer)
        commands = self._connections.commands
        self._announcer = Announcer(commands, name)
        self._clock, self._held = RedisClock(), HeldDeliveries()
        self._answers = Answers(commands, on_event)
        self._links = IntakeLinks(
            commands, self._clock, self._held, self._answers, worker=name, block_s=redis.block_s
        )
        self._intakes: dict[str, Intake] = {}
        self._announcing: defaultdict[str, Failing] = defaultdict(Failing)
        self._answered_s = float("-inf")  # when Redis last answered
        self._reap_at_s: dict[str, float] = {}
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Wait until Redis answers. Raises UnsupportedRedis."""
        backoff = Backoff()
        while self._keeping is None:
            try:
                await self._clock.calibrate(self._connections.commands)
            except UnsupportedRedis:
                raise
            except (Unreachable, ResponseError) as error:
                if backoff.failures == 0:
                    get_logger().warning("redis_unreachable", error=str(error))
                await asyncio.sleep(backoff.next_s())
            else:
                self._answered_s = asyncio.get_running_loop().time()
                self._keeping = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Hand back what was never given out, and leave the groups."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        for model in self._intakes:
            await self.release(model)
            with contextlib.suppress(Unreachable, ResponseError):
                await self._reap(model, leaving=self.name)
        await self._connections.close()

    @property
    def healthy(self) -> bool:
        """Whether Redis answered lately, and let us take jobs and say that we live."""
        since_s = asyncio.get_running_loop().time() - self._answered_s
        failing = [*self._announcing.values(), *(i.failing for i in self._intakes.values())]
        longest_s = max([since_s, *(work.lasted_s for work in failing)])
        return longest_s < self._config.healthy_s

    # --- JobConsumer ---

    async def announce(self, announcement: Announcement) -> None:
        model = announcement.spec.id
        try:
            await self._intake(model).ensure_groups()
            await self._announcer.announce(announcement)
            await self._reap_when_due(model)
            self._announcing[model].succeeded()
        except (Unreachable, ResponseError) as error:  # the next heartbeat tries again
            self._announcing[model].failed()
            get_logger().warning("announcement_failed", model=model, error=str(error))

    async def receive(self, model: str, max_tokens: int, wait_s: float) -> list[Delivery]:
        return [*await self._intake(model).receive(max_tokens, wait_s)]

    async def complete(self, delivery: Delivery, outcome: Outcome) -> None:
        delivery = _of_a_stream(delivery)
        await self._answers.send(delivery.entry, outcome)
        self._held.drop(delivery)

    async def renew(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        ours = [_of_a_stream(delivery) for delivery in deliveries]
        asked = [delivery for delivery in ours if not self._held.is_surely_wanted(delivery)]
        try:
            wanted = await self._renew(asked)
        except (Unreachable, ResponseError):  # nobody can tell: they run, and the answer shows it
            return list(deliveries)
        unwanted = set(asked) - wanted
        for delivery in unwanted:
            self._held.drop(delivery)
        return [delivery for delivery in ours if delivery not in unwanted]

    async def begin(self, delivery: Delivery) -> bool:
        delivery = _of_a_stream(delivery)
        entry = delivery.entry
        try:
            wanted = await count_attempt(
                self._connections.commands, entry.queue, self.name, entry.id, delivery.attempt
            )
        except (Unreachable, ResponseError):  # nobody can tell: it runs, and the answer shows it
            return True
        if not wanted:
            self._held.drop(delivery)
        return wanted

    async def hand_back(self, deliveries: Sequence[Delivery]) -> None:
        """Let other workers have them at once; they count as never delivered."""
        commands, giving = self._connections.commands, []
        for delivery in map(_of_a_stream, deliveries):
            self._held.drop(delivery)
            entry = delivery.entry
            giving.append(give_back(commands, entry.queue, self.name, entry.id, delivery.attempt))
        for failure in await asyncio.gather(*giving, return_exceptions=True):
            if isinstance(failure, BaseException):  # their lease runs out
                get_logger().warning("not_handed_back", error=str(failure))

    async def release(self, model: str) -> None:
        """Claimed deliveries, and those that were too large to be given out so far."""
        if model in self._intakes:
            await self.hand_back(self._intakes[model].drain_ready())

    # --- what runs beside it ---

    async def _keep(self) -> None:
        """Leases of all that is held, in the engine too, and the clock."""
        while True:
            await asyncio.sleep(self._config.renew_s)
            with contextlib.suppress(Unreachable, ResponseError):
                await self._clock.calibrate(self._connections.health)
                self._answered_s = asyncio.get_running_loop().time()
                await self._renew(list(self._held))

    async def _renew(self, deliveries: Sequence[StreamDelivery]) -> set[StreamDelivery]:
        """Those still wanted."""
        wanted: set[StreamDelivery] = set()
        for queue, ours in by_queue(deliveries).items():
            for at in range(0, len(ours), _CLAIMED_AT_ONCE):
                part = ours[at : at + _CLAIMED_AT_ONCE]
                ids = [delivery.entry.id for delivery in part]
                kept = await renew(self._connections.commands, queue, self.name, ids)
                wanted.update(delivery for delivery in part if delivery.entry.id in kept)
        return wanted

    async def _reap_when_due(self, model: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._reap_at_s.get(model, 0.0):
            wait_s = self._config.reap_s * random.uniform(0.5, 1.5)  # noqa: S311
            self._reap_at_s[model] = now_s + wait_s
            await self._reap(model)

    async def _reap(self, model: str, leaving: str = "") -> None:
        keys = model_keys(model)
        await REAP.run(
            self._connections.commands,
            (keys.heartbeats, *keys.queues),
            *(GROUP, DEAD_AFTER_MS, leaving),
        )

    def _intake(self, model: str) -> Intake:
        intake = self._intakes.get(model)
        if intake is None:
            line = self._connections.blocking()
            intake = Intake(model, line, self._links, self._config.intake)
            self._intakes[model] = intake
        return intake


def _of_a_stream(delivery: Delivery) -> StreamDelivery:
    if not isinstance(delivery, StreamDelivery):
        raise TypeError("a delivery of another transport")
    return delivery
