"""Who is calling, and what they may do."""

from dataclasses import dataclass

from auth.record import DEFAULT_SCOPES, KeyRecord, Lane


@dataclass(frozen=True)
class Principal:
    """The caller of a request. Holds nothing secret."""

    kid: str | None  # None: anonymous
    name: str
    scopes: frozenset[str]
    models: frozenset[str] | None = None  # None: all
    lane: Lane | None = None  # None: what the request asks for

    @classmethod
    def of(cls, record: KeyRecord) -> "Principal":
        return cls(record.kid, record.name, record.scopes, record.models, record.lane)

    def may(self, scope: str) -> bool:
        return scope in self.scopes

    def may_use(self, model: str) -> bool:
        """`model` is the id, an alias already resolved."""
        return self.models is None or model in self.models


# Without keys nobody can be an administrator: `admin` is never given away.
ANONYMOUS = Principal(kid=None, name="anonymous", scopes=DEFAULT_SCOPES)
