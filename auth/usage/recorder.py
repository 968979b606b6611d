"""Counts what one gateway process answers, and writes it to the store every few seconds."""

import asyncio
import time
from collections.abc import Callable
from typing import Literal
from uuid import uuid4

from auth.calendar import Period, day_of, first_day
from auth.errors import AuthError
from auth.holder import Holder
from auth.principal import Principal
from auth.usage.count import Batch, Count, Use
from auth.usage.store import UsageStore
from observability.logs import get_logger, place_of

FLUSH_S = 5.0  # what kill -9 may cost: at most 10 s are promised, the other 5 are the database's
MAX_ROWS = 100_000  # kept while they cannot be written, some 30 MB

Kind = Literal["embed", "rerank"]
UsageEvent = Literal["flush_failed", "dropped"]


class UsageRecorder:
    """`record` each answer once, `run` beside; whatever the database does, a request never waits.

    What could not be written is kept and written later, each request once, even if the answer to a
    commit was lost. As long as there is no SQLite file all is kept too, for whoever makes the
    first key. Of what is kept the rows are bounded: beyond `max_rows` only those already there
    count on, and `on_event("dropped")` tells of each request that is lost so.
    """

    def __init__(
        self,
        store: UsageStore,
        *,
        on_event: Callable[[UsageEvent], None] = lambda _: None,
        now: Callable[[], float] = time.time,
        flush_s: float = FLUSH_S,
        max_rows: int = MAX_ROWS,
    ) -> None:
        self._store = store
        self._on_event = on_event
        self._now = now
        self._flush_s = flush_s
        self._max_rows = max_rows
        self._gateway = uuid4().hex
        self._sequence = 0
        self._counts: dict[Use, Count] = {}
        self._last_used: dict[str, int] = {}
        self._sent: Batch | None = None  # offered to the store, which has not said yes yet
        self._writing = asyncio.Lock()
        self._asked: set[asyncio.Task[int | None]] = set()
        self._failed = False

    def record(self, principal: Principal, model: str, kind: Kind, tokens: int) -> None:
        """One request was answered. In memory alone: takes about a microsecond."""
        kid, project = principal.kid or "", principal.project or ""
        use = Use(day_of(self._now()), kid, project, model, kind)
        count = self._counts.get(use)
        if count is None:
            if len(self._counts) >= self._max_rows:
                self._on_event("dropped")
                return
            count = self._counts[use] = Count()
        count.requests += 1
        count.tokens += tokens

    def seen(self, principal: Principal) -> None:
        """The key was accepted, whatever came of the request: `last_used_at` tells of it."""
        if principal.kid is not None:
            self._last_used[principal.kid] = int(self._now())

    def pending(self, holder: Holder, period: Period) -> int:
        """Tokens of the current day or month that the store has not confirmed yet."""
        since = first_day(period, self._now())
        place = Use._fields.index("kid" if holder.kind == "key" else "project")
        return sum(
            count.tokens
            for counts in (self._counts, self._sent.counts if self._sent else {})
            for use, count in counts.items()
            if use[place] == holder.name and use.day >= since
        )

    async def used(self, holder: Holder, period: Period) -> int | None:
        """Tokens used in the current day or month, by all gateways as far as they have written.

        None when the database does not tell. Whoever waits no longer may be cancelled.
        """
        asking = asyncio.create_task(self._used(holder, period))
        # It ends by itself: a connection cut off half-way leaves a thread or a transaction behind.
        self._asked.add(asking)
        asking.add_done_callback(self._asked.discard)
        return await asyncio.shield(asking)

    async def flush(self) -> None:
        """Write what there is. Raises `StoreUnavailable`: it is kept."""
        async with self._writing:
            if self._sent is not None:
                await self._write(self._sent)
            if (self._counts or self._last_used) and self._store.exists():
                self._sent = self._take()
                await self._write(self._sent)

    async def run(self) -> None:
        """Flush until cancelled, and once more then, so that a stop loses nothing."""
        try:
            while True:
                await asyncio.sleep(self._flush_s)
                await self._undisturbed()
        finally:
            await self._undisturbed()
            await asyncio.gather(*self._asked)
            lost = self._requests()
            if lost and self._failed:
                get_logger().error("usage_lost", requests=lost)

    async def _undisturbed(self) -> None:
        """A flush under way is finished first."""
        flushing = asyncio.ensure_future(self._flush_and_log())
        try:
            await asyncio.shield(flushing)
        except asyncio.CancelledError:
            await flushing
            raise

    async def _flush_and_log(self) -> None:
        try:
            await self.flush()
        except Exception as error:
            self._on_event("flush_failed")
            if not self._failed:
                told = {"reason": str(error)} if isinstance(error, AuthError) else {}
                get_logger().error("usage_flush_failed", **place_of(error), **told)
            self._failed = True
        else:
            if self._failed:
                get_logger().info("usage_flush_recovered")
            self._failed = False

    async def _used(self, holder: Holder, period: Period) -> int | None:
        async with self._writing:
            try:
                if self._sent is not None:  # whether it is in the store already must be known
                    await self._write(self._sent)
                since = first_day(period, self._now())
                written = await self._store.tokens_of(holder, since)
            except AuthError:
                return None
            return written + self.pending(holder, period)

    def _take(self) -> Batch:
        self._sequence += 1
        at = int(self._now())
        batch = Batch(self._gateway, self._sequence, at, self._counts, self._last_used)
        self._counts, self._last_used = {}, {}
        return batch

    async def _write(self, batch: Batch) -> None:
        await self._store.add(batch)
        self._sent = None

    def _requests(self) -> int:
        """That were not written."""
        sent = self._sent.counts if self._sent else {}
        return sum(count.requests for counts in (self._counts, sent) for count in counts.values())
