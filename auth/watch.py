"""Keeps an authenticator's snapshot up with the store."""

import asyncio
import time
from collections.abc import Callable

from auth.authenticator import Authenticator
from auth.errors import AuthError, PepperMismatch, PepperMissing, StoreUnavailable
from auth.nudge import LocalNudge, Nudge
from auth.pepper import Peppers
from auth.snapshot import Snapshot
from auth.store import KeyStore
from observability.logs import get_logger

POLL_S = 2.0  # a revocation is promised within 5 s: two polls, and a second for the database
ALONE_POLL_S = 0.5  # where no Redis carries a nudge from the command line

log = get_logger()


class KeyWatch:
    """Asks the store for its revision every `poll_s`, and for the keys when it has changed.

    A nudge has it ask at once.

    `read_peppers` is called when the keys have changed and there are some, so that a server which
    started without keys finds the pepper that the first `keys create` made.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        store: KeyStore,
        read_peppers: Callable[[], Peppers],
        *,
        nudge: Nudge | None = None,
        poll_s: float = POLL_S,
    ) -> None:
        self.refreshed_at = 0.0  # since 1970: the keys are those of this moment, or later
        self._authenticator = authenticator
        self._store = store
        self._read_peppers = read_peppers
        self._nudge = nudge or LocalNudge()
        self._poll_s = poll_s
        self._turn = asyncio.Lock()
        self._peppers: Peppers | None = None  # as they were last read
        self._peppers_are_good = False
        self._revision: int | None = None  # of the last refresh that succeeded
        self._failed = False

    async def refresh(self) -> None:
        """Bring the authenticator up to date; awaited once before the server listens, and by who
        has changed a key in this process.

        Raises `StoreUnavailable`, `SchemaOutdated`, `SchemaNewer`: the last snapshot stays in
        force. Raises `PepperMissing` and the other errors of a pepper: the keys are in force, and
        those refused whose pepper was never read.
        """
        async with self._turn:  # or one that read earlier could have the last word
            asked_at = time.time()
            await self._refresh()
            self.refreshed_at = asked_at

    async def _refresh(self) -> None:
        # Whatever fails below, the next refresh looks at the keys: it may be another database.
        last, self._revision = self._revision, None
        if not self._store.exists():
            if self._authenticator.snapshot.keys:
                raise StoreUnavailable("the database of the keys has gone")
            return
        if last is None:
            await self._store.check_schema()
        elif self._peppers_are_good and await self._store.revision() == last:
            self._revision = last
            return
        snapshot = await self._store.snapshot(self._authenticator.snapshot)
        try:
            if snapshot.keys:
                self._peppers = self._read_peppers()
                check_peppers(self._peppers, snapshot, time.time())
        except AuthError:
            # A pepper that is missing takes its own keys with it, and not all the others.
            usable = self._peppers and self._peppers.matching(snapshot.fingerprints)
            self._authenticator.replace(snapshot, usable)
            self._peppers_are_good = False
            raise
        else:
            self._authenticator.replace(snapshot, self._peppers)
            self._peppers_are_good = True
        finally:
            self._revision = snapshot.revision  # read, whatever the peppers are

    async def run(self) -> None:
        """Refresh until cancelled; a refresh under way is finished first.

        What fails is logged when it begins, and tried again.
        """
        nudged = asyncio.create_task(self._nudge.wait())
        try:
            while True:
                # One wait outlives many polls: a hint that comes between two of them is not lost.
                await asyncio.wait({nudged}, timeout=self._poll_s)
                if nudged.done():
                    nudged = asyncio.create_task(self._nudge.wait())
                await self._refresh_whole()
        finally:
            nudged.cancel()
            await asyncio.gather(nudged, return_exceptions=True)

    async def _refresh_whole(self) -> None:
        refreshing = asyncio.ensure_future(self._refresh_and_log())
        try:
            await asyncio.shield(refreshing)
        except asyncio.CancelledError:
            # A connection cut off half-way leaves its thread to an event loop that closes.
            await refreshing
            raise

    async def _refresh_and_log(self) -> None:
        try:
            await self.refresh()
        except AuthError as error:
            if not self._failed:
                log.error("key_refresh_failed", error=type(error).__name__, reason=str(error))
            self._failed = True
        else:
            if self._failed:
                log.info("key_refresh_recovered")
            self._failed = False


def check_peppers(peppers: Peppers, snapshot: Snapshot, now: float) -> None:
    """Raises `PepperMissing` or `PepperMismatch` unless these peppers made the active keys."""
    for version, fingerprint in sorted(snapshot.fingerprints.items()):
        # The keys, which may be many, are looked through where a pepper is wrong, and only then.
        if version in peppers and peppers.fingerprint(version) == fingerprint:
            continue
        if not any(key.pv == version and key.active(now) for key in snapshot.keys.values()):
            continue
        if version not in peppers:
            raise PepperMissing(f"keys were made with pepper {version}, which was not given")
        raise PepperMismatch(f"pepper {version} is not the one that the keys were made with")
