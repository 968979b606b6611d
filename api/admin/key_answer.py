"""A key and its limits as JSON, the same here and at the command line; never its digest."""

from dataclasses import asdict
from typing import Any

from auth.record import KeyRecord


def describe(record: KeyRecord, now: float) -> dict[str, Any]:
    """All but what is secret. Times are seconds since 1970."""
    return {
        "id": record.kid,
        "name": record.name,
        "owner": record.owner,
        "project": record.project,
        "env": record.env,
        "scopes": sorted(record.scopes),
        "models": None if record.models is None else sorted(record.models),
        "lane": record.lane,
        "limits": asdict(record.limits),
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "revoked_at": record.revoked_at,
        "last_used_at": record.last_used_at,
        "replaces": record.replaces,
        "state": state_of(record, now),
    }


def state_of(record: KeyRecord, now: float) -> str:
    if record.revoked_at is not None:
        return "revoked"
    return "active" if record.active(now) else "expired"
