"""A key as the store keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from auth.errors import KeyRefused
from auth.key import DEFAULT_ENV

Lane = Literal["online", "bulk"]

LANES: frozenset[str] = frozenset({"online", "bulk"})
SCOPES = frozenset({"embed", "rerank", "admin"})
DEFAULT_SCOPES = frozenset({"embed", "rerank"})
MAX_TEXT = 256  # characters of a name
LATEST = 253_402_300_799  # the last second of the year 9999
_MOST = {  # more than any server does, and less than where a database or a double ends
    "rpm": 10**9,
    "tpm": 10**15,
    "max_concurrency": 10**6,
    "burst_s": 86_400,
    "daily_tokens": 10**15,
    "monthly_tokens": 10**15,
}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much a key or a project may ask for. None: no limit."""

    rpm: int | None = None  # requests a minute
    tpm: int | None = None  # tokens a minute
    max_concurrency: int | None = None  # requests at a time
    burst_s: float | None = None  # of rpm and tpm that may be spent at once; None: a minute's
    daily_tokens: int | None = None
    monthly_tokens: int | None = None

    @property
    def any_set(self) -> bool:
        """Whether anything is limited; a burst alone limits nothing."""
        return any(
            getattr(self, limit.name) is not None
            for limit in fields(self)
            if limit.name != "burst_s"
        )

    def changed(self, changes: Mapping[str, int | float | None]) -> "Limits":
        """With these fields in place of its own; None lifts a limit. Raises `KeyRefused`."""
        unknown = changes.keys() - {limit.name for limit in fields(self)}
        if unknown:
            raise KeyRefused(f"no such limit: {', '.join(sorted(unknown))}")
        limits: Limits = replace(self, **changes)  # type: ignore[arg-type]  # checked next
        limits.check()
        return limits

    def check(self) -> None:
        """Raises `KeyRefused` for a limit outside its range."""
        for limit in fields(self):
            value, most = getattr(self, limit.name), _MOST[limit.name]
            if value is None:
                continue
            if limit.name != "burst_s" and not isinstance(value, int):
                raise KeyRefused("a whole number", limit.name)
            if not 0 < value <= most:  # nor is NaN
                raise KeyRefused(f"above zero and up to {most}, or no limit", limit.name)


@dataclass(frozen=True, kw_only=True)
class NewKey:
    """What the maker of a key decides. Times are seconds since 1970, UTC."""

    name: str
    owner: str | None = None
    project: str | None = None
    env: str = DEFAULT_ENV
    scopes: frozenset[str] = DEFAULT_SCOPES
    models: frozenset[str] | None = None  # ids it may use; None: all
    lane: Lane | None = None  # of its requests that name none; None: by size
    limits: Limits = Limits()
    expires_at: int | None = None

    def check(self, now: float) -> None:
        """Raises `KeyRefused` for a field outside its range; `env` is `generate_key`'s to check."""
        if not _is_text(self.name):
            raise KeyRefused("printable characters", "name")
        for what, text in (("owner", self.owner), ("project", self.project)):
            if text is not None and not _is_text(text):
                raise KeyRefused("printable characters, or none given", what)
        if not self.scopes or not self.scopes <= SCOPES:
            raise KeyRefused(f"one or more of {', '.join(sorted(SCOPES))}", "scopes")
        if self.models is not None and not (self.models and all(map(_is_text, self.models))):
            raise KeyRefused("at least one, or none given for all", "models")
        if self.lane is not None and self.lane not in LANES:
            raise KeyRefused(f"one of {', '.join(sorted(LANES))}", "lane")
        if self.expires_at is not None and not now < self.expires_at <= LATEST:
            raise KeyRefused("a time to come, before the year 10000", "expires_at")
        self.limits.check()


@dataclass(frozen=True, kw_only=True)
class KeyRecord(NewKey):
    """A row of `keys`."""

    kid: str
    digest: bytes = field(repr=False)  # HMAC-SHA256 of the key under pepper `pv`
    pv: int
    created_at: int
    revoked_at: int | None = None
    last_used_at: int | None = None
    replaces: str | None = None  # the key this one was rotated from

    def active(self, now: float) -> bool:
        """Neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True)
class Rotation:
    """On what terms a key is replaced; seconds from now."""

    grace_s: float  # how long the old key goes on, at the most
    expires_in_s: float | None = None  # life of the new key; None: as long as the old one's was

    def check(self) -> None:
        """Raises `KeyRefused`."""
        if not 0 <= self.grace_s <= LATEST:  # nor is NaN
            raise KeyRefused("0 s or more", "grace_s")
        if self.expires_in_s is not None and not 1 <= self.expires_in_s <= LATEST:
            raise KeyRefused("1 s or more", "expires_in_s")

    def expiry(self, old: KeyRecord, now: float) -> int | None:
        """Of the new key, in seconds since 1970; None where it has none."""
        life_s = self.expires_in_s
        if life_s is None:
            if old.expires_at is None:
                return None
            life_s = old.expires_at - old.created_at
        return min(int(now + life_s), LATEST)


def is_storable(text: str) -> bool:
    """Whether any database can hold it, or be asked for it: PostgreSQL knows no NUL, and UTF-8 no
    lone surrogates."""
    return "\0" not in text and not any("\ud800" <= symbol <= "\udfff" for symbol in text)


def _is_text(text: str) -> bool:
    return bool(text.strip()) and text.isprintable() and len(text) <= MAX_TEXT
