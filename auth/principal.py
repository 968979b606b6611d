"""Who is calling, and what they may do."""

from collections.abc import Mapping
from dataclasses import dataclass

from auth.holder import Holder
from auth.record import DEFAULT_SCOPES, KeyRecord, Lane, Limits


@dataclass(frozen=True)
class Principal:
    """The caller of a request. Holds nothing secret."""

    kid: str | None  # None: anonymous
    name: str
    scopes: frozenset[str]
    models: frozenset[str] | None = None  # None: all
    lane: Lane | None = None  # of requests that name none; None: by size
    project: str | None = None
    holders: tuple[Holder, ...] = ()  # the key and its project, where anything limits them

    @classmethod
    def of(cls, record: KeyRecord, projects: Mapping[str, Limits]) -> "Principal":
        """`projects`: the limits of each by name."""
        holders = [Holder("key", record.kid, record.limits)]
        if record.project is not None and record.project in projects:
            holders.append(Holder("project", record.project, projects[record.project]))
        return cls(
            kid=record.kid,
            name=record.name,
            scopes=record.scopes,
            models=record.models,
            lane=record.lane,
            project=record.project,
            holders=tuple(holder for holder in holders if holder.limits.any_set),
        )

    def may(self, scope: str) -> bool:
        return scope in self.scopes

    def may_use(self, model: str) -> bool:
        """`model` is the id, an alias already resolved."""
        return self.models is None or model in self.models


# Without keys nobody can be an administrator: `admin` is never given away.
ANONYMOUS = Principal(kid=None, name="anonymous", scopes=DEFAULT_SCOPES)
