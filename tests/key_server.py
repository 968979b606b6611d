"""The part of a server that knows keys."""

import time
from collections.abc import Callable

from auth.authenticator import Authenticator
from auth.errors import InvalidKey
from auth.nudge import Nudge
from auth.pepper import Peppers
from auth.store import KeyStore
from auth.watch import KeyWatch


class KeyServer:
    """Polls a thousand times a second unless told otherwise."""

    def __init__(
        self,
        store: KeyStore,
        read_peppers: Callable[[], Peppers],
        *,
        nudge: Nudge | None = None,
        poll_s: float = 0.001,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.authenticator = Authenticator(now=now)
        self.watch = KeyWatch(self.authenticator, store, read_peppers, nudge=nudge, poll_s=poll_s)

    def admits(self, key: str) -> bool:
        try:
            return self.authenticator.authenticate(key).kid is not None
        except InvalidKey:
            return False
