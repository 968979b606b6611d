"""Asking the database what a budget has used, without waiting for it long."""

import asyncio
from collections.abc import Callable, Sequence

from auth.calendar import Period
from auth.errors import AuthError
from auth.holder import Holder
from auth.limits.demand import Budget
from auth.limits.period import Span, span_of
from auth.limits.store import Seed

_WAIT_S = 1.0  # a request waits no longer for the database; its budget is then counted from 0

_Question = tuple[Holder, Period]


class Seeding:
    """One question at a time for each budget, however many requests wait for its answer."""

    def __init__(self, seed: Seed, now: Callable[[], float]) -> None:
        """`now` is the clock of `seed`, in seconds since 1970."""
        self._seed = seed
        self._now = now
        self._asking: dict[_Question, asyncio.Task[int | None]] = {}

    async def ask(self, budgets: Sequence[tuple[Budget, Span]]) -> list[int | None]:
        """What each has used in its span. None: not known now."""
        return list(await asyncio.gather(*[self._ask(budget, span) for budget, span in budgets]))

    async def _ask(self, budget: Budget, span: Span) -> int | None:
        question = budget.holder, budget.period
        asking = self._asking.get(question)
        if asking is None:
            asking = self._asking[question] = asyncio.create_task(self._question(question))
            asking.add_done_callback(lambda _: self._asking.pop(question, None))
        used = await asyncio.shield(asking)
        # Near midnight the seed may be of another day than the store's clock says, and would
        # fill a new day with all of the last.
        return used if span.holds(self._now()) else None

    async def _question(self, question: _Question) -> int | None:
        holder, period = question
        span = span_of(period, self._now())
        try:
            async with asyncio.timeout(_WAIT_S):
                used = await self._seed(holder, period)
        except (AuthError, TimeoutError):
            return None
        return used if span.holds(self._now()) else None
