"""Limits while Redis may be away: this gateway's share of them, counted here."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from redis.exceptions import RedisError

from auth.calendar import Period
from auth.limits.demand import Budget, Demand
from auth.limits.memory import MemoryLimits
from auth.limits.redis import RedisLimits
from auth.limits.standing import Standing
from observability.logs import get_logger

RETRY_S = 1.0  # Redis is left alone for so long after it failed
HEARTBEAT_S = 3.0
_MOST_OWED = 10_000  # what is kept for Redis' return; older leases end by themselves

_FAILURES = (RedisError, OSError, TimeoutError)

log = get_logger()


class FailoverLimits:
    """Redis, and while it fails a share: requests must not fail where only counting does.

    At most one call each RETRY_S waits for a Redis that does not answer, as long as its timeout
    is; all others are answered from the share at once.
    """

    def __init__(
        self, redis: RedisLimits, share: MemoryLimits, on_error: Callable[[], None]
    ) -> None:
        """`share` is one made with `share_of`; `on_error` hears of each failure of Redis."""
        self._redis = redis
        self._share = share
        self._on_error = on_error
        self._local = False
        self._retry_s = 0.0  # of the event loop's clock
        self._owed: deque[Demand] = deque(maxlen=_MOST_OWED)
        # Of which the share granted tokens that Redis has not heard of.
        self._unheard: dict[tuple[str, str, Period], Budget] = {}

    @property
    def local(self) -> bool:
        """Whether the share is in force."""
        return self._local

    async def take(self, demand: Demand) -> Standing:
        if self._may_ask():
            try:
                await self._tell_of_share()  # first: its count would grant the same tokens again
                standing = await self._redis.take(demand)
            except _FAILURES as error:
                self._failed(error)
                # Redis may have counted it, or may yet. Its tokens are lost to the budget; its
                # slots are not kept until their leases end.
                self._owe(Demand(slots=demand.slots))
            else:
                self._answered()
                return replace(standing, by=self)
        standing = await self._share.take(demand)
        for budget in standing.taken.budgets:
            if budget.cost:
                # Another object each time: what is granted while Redis is told stays to be told.
                name = budget.holder.kind, budget.holder.name, budget.period
                self._unheard[name] = replace(budget, cost=0)
        return standing

    async def give_back(self, taken: Demand) -> None:
        """To Redis; what the share granted goes back there, as `Standing.by` says."""
        # What is owed for a while: a debt flows off in the meantime, and an emptied Redis knows
        # nothing of it; slots are told by their request, budgets by the count they are of.
        owed = replace(taken, buckets=())
        if self._may_ask():
            try:
                await self._redis.hand_in(taken)
            except _FAILURES as error:
                self._failed(error)
                owed = Demand(slots=taken.slots)  # a cost may be returned, and must not be twice
            else:
                self._answered()
                return
        self._owe(owed)

    async def run(self) -> None:
        """Until cancelled: be counted among the gateways, and hand in what Redis is owed."""
        while True:
            if self._may_ask():
                try:
                    await self._redis.heartbeat()
                    await self._tell_of_share()
                    self._answered()
                    await self._hand_in()
                except _FAILURES as error:
                    self._failed(error)
            await asyncio.sleep(RETRY_S if self._local else HEARTBEAT_S)

    async def _tell_of_share(self) -> None:
        """Have Redis ask the database, where it is written down, what the share granted: a sum
        would count twice what a Redis that was emptied has read there already."""
        while self._unheard:
            told = dict(self._unheard)
            await self._redis.ask_again(list(told.values()))
            for name, budget in told.items():
                if self._unheard.get(name) is budget:
                    del self._unheard[name]

    async def _hand_in(self) -> None:
        while self._owed:
            # What fails is not tried again: it may have been heard.
            await self._redis.hand_in(self._owed.popleft())

    def _owe(self, owed: Demand) -> None:
        if owed:
            self._owed.append(owed)

    def _may_ask(self) -> bool:
        """While the share is in force one call each RETRY_S asks Redis, and no other."""
        if not self._local:
            return True
        now_s = asyncio.get_running_loop().time()
        if now_s < self._retry_s:
            return False
        self._retry_s = now_s + RETRY_S
        return True

    def _failed(self, error: Exception) -> None:
        self._on_error()
        self._retry_s = asyncio.get_running_loop().time() + RETRY_S
        if not self._local:
            log.error("limits_became_local", error=type(error).__name__)
            self._share.ask_again()  # its counts are those of when Redis was away before
        self._local = True

    def _answered(self) -> None:
        if self._local:
            log.info("limits_are_shared_again")
        self._local = False
