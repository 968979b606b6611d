"""A key as the store keeps it."""

from dataclasses import dataclass, field, fields
from typing import Literal

from auth.errors import KeyRefused
from auth.key import DEFAULT_ENV

Lane = Literal["online", "bulk"]

LANES: frozenset[str] = frozenset({"online", "bulk"})
SCOPES = frozenset({"embed", "rerank", "admin"})
DEFAULT_SCOPES = frozenset({"embed", "rerank"})


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much a key or a project may ask for. None: no limit."""

    rpm: int | None = None  # requests a minute
    tpm: int | None = None  # tokens a minute
    max_concurrency: int | None = None  # requests at a time
    burst_s: float | None = None  # of rpm and tpm that may be spent at once; None: a minute's
    daily_tokens: int | None = None
    monthly_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class NewKey:
    """What the maker of a key decides. Times are seconds since 1970, UTC."""

    name: str
    owner: str | None = None
    project: str | None = None
    env: str = DEFAULT_ENV
    scopes: frozenset[str] = DEFAULT_SCOPES
    models: frozenset[str] | None = None  # ids it may use; None: all
    lane: Lane | None = None  # the lane of all its requests; None: what each asks for
    limits: Limits = Limits()
    expires_at: int | None = None

    def check(self) -> None:
        """Raises `KeyRefused` for a field outside its range; `env` is `generate_key`'s to check."""
        if not self.name.strip() or not self.name.isprintable():
            raise KeyRefused("a key needs a name, of printable characters")
        if not self.scopes or not self.scopes <= SCOPES:
            raise KeyRefused(f"scopes: one or more of {', '.join(sorted(SCOPES))}")
        if self.models is not None and not self.models:
            raise KeyRefused("models: at least one, or none given for all")
        if self.lane is not None and self.lane not in LANES:
            raise KeyRefused(f"lane: one of {', '.join(sorted(LANES))}")
        for limit in fields(self.limits):
            value = getattr(self.limits, limit.name)
            if value is not None and value <= 0:
                raise KeyRefused(f"{limit.name}: above zero, or none given for no limit")


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
