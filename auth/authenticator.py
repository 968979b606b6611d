"""Who presents this key? Answered from memory: a request never waits for the database."""

import hmac
import time
from collections.abc import Callable

from auth.errors import InvalidKey, MalformedKey, MissingKey
from auth.key import generate_key, parse_key
from auth.pepper import Peppers
from auth.principal import ANONYMOUS, Principal
from auth.record import KeyRecord
from auth.snapshot import EMPTY, Snapshot

# What a refused key is worked on with, where it has no row of its own or no pepper was found.
_DUMMY_PEPPERS = Peppers.generate()
_DUMMY_KEY, _ = generate_key()
_DUMMY_DIGEST = bytes(32)


class Authenticator:
    """Checks keys against a snapshot of the store; `KeyWatch` replaces the snapshot.

    Open as long as no key was ever made: whoever calls is `ANONYMOUS`, whatever key they present.
    One row closes it, revoked or expired ones too, and nothing opens it again before a restart: an
    operator who made a key does not mean everybody when the last one dies or the database is lost.
    One that is never given a snapshot stays open: that is `--no-auth`.
    """

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._snapshot = EMPTY
        self._peppers = _DUMMY_PEPPERS
        self._principals: dict[str, Principal] = {}  # of the snapshot, by key id
        self._is_open = True

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    def replace(self, snapshot: Snapshot, peppers: Peppers | None) -> None:
        """Answer from this snapshot from now on. Without peppers every key is refused."""
        self._snapshot = snapshot
        self._principals = {}
        self._peppers = peppers or _DUMMY_PEPPERS
        self._is_open = self._is_open and not snapshot.keys

    def authenticate(self, presented: str | None) -> Principal:
        """The principal of the key a request presents, scheme removed.

        Raises `MissingKey` when there is none (None or empty) and the server asks for one, else
        `InvalidKey`. Every refusal of a key costs one HMAC and one comparison, so that its time
        does not say which key ids exist.
        """
        if self._is_open:
            return ANONYMOUS
        if not presented:
            raise MissingKey("no API key was presented")
        record, key = self._look_up(presented)
        version = record.pv if record else self._peppers.version
        digest = self._peppers.digest(key, version)
        matches = hmac.compare_digest(digest, record.digest if record else _DUMMY_DIGEST)
        # Asked at every request, so that neither an expiry nor a revocation waits for anything.
        if record is None or not matches or not record.active(self._now()):
            raise InvalidKey("the API key is not valid")
        return self._principal(record)

    def _principal(self, record: KeyRecord) -> Principal:
        known = self._principals.get(record.kid)
        if known is None:
            known = Principal.of(record, self._snapshot.projects)
            self._principals[record.kid] = known
        return known

    def _look_up(self, presented: str) -> tuple[KeyRecord | None, str]:
        """The row of a key, and the key; a dummy of the usual length for text that is none."""
        try:
            kid = parse_key(presented).kid
        except MalformedKey:
            return None, _DUMMY_KEY
        record = self._snapshot.keys.get(kid)
        if record is not None and record.pv not in self._peppers:
            record = None
        return record, presented
