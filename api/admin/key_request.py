"""What the body of a request says of a key or of limits."""

from dataclasses import fields
from typing import Any, Literal

from pydantic import BaseModel

from api.admin.query import refuse_unknown
from api.errors import ApiError
from api.fields import RequestFields, parse_fields
from auth.key import DEFAULT_ENV
from auth.record import DEFAULT_SCOPES, LATEST, Limits, NewKey, Rotation

DEFAULT_GRACE_S = 86_400.0


class _LimitFields(RequestFields):
    rpm: int | None = None
    tpm: int | None = None
    max_concurrency: int | None = None
    burst_s: float | None = None
    daily_tokens: int | None = None
    monthly_tokens: int | None = None


class _KeyFields(RequestFields):
    name: str
    owner: str | None = None
    project: str | None = None
    env: str = DEFAULT_ENV
    scopes: list[Literal["embed", "rerank", "admin"]] | None = None
    models: list[str] | None = None
    lane: Literal["online", "bulk"] | None = None
    limits: dict[str, Any] | None = None
    expires_at: int | None = None
    expires_in_s: float | None = None


class _RotateFields(RequestFields):
    grace_s: float = DEFAULT_GRACE_S
    expires_in_s: float | None = None


def parse_new_key(body: dict[str, Any], now: float) -> NewKey:
    """Raises ApiError; what the store refuses besides is told by the store."""
    refuse_unknown(body, _KeyFields.model_fields)
    given = parse_fields(_KeyFields, body)
    return NewKey(
        name=given.name,
        owner=given.owner,
        project=given.project,
        env=given.env,
        # An empty list is not taken for the default: the store refuses it.
        scopes=DEFAULT_SCOPES if given.scopes is None else frozenset(given.scopes),
        models=None if given.models is None else frozenset(given.models),
        lane=given.lane,
        limits=Limits(**_parse_limits(given.limits or {})),
        expires_at=_expiry(given, now),
    )


def parse_changes(body: dict[str, Any]) -> dict[str, Any]:
    """Of the fields of `Limits`, those that the body names; None, where it says null, lifts one.

    Raises ApiError.
    """
    changes = _parse_limits(body)
    if not changes:
        names = ", ".join(field.name for field in fields(Limits))
        raise ApiError("invalid_value", f"Name at least one limit: {names}.")
    return changes


def parse_rotation(body: dict[str, Any]) -> Rotation:
    """Raises ApiError; what the store refuses besides is told by the store."""
    refuse_unknown(body, _RotateFields.model_fields)
    given = parse_fields(_RotateFields, body)
    return Rotation(given.grace_s, given.expires_in_s)


def _parse_limits(body: dict[str, Any]) -> dict[str, Any]:
    refuse_unknown(body, _LimitFields.model_fields)
    given: BaseModel = parse_fields(_LimitFields, body)
    return {name: getattr(given, name) for name in body}


def _expiry(given: _KeyFields, now: float) -> int | None:
    if given.expires_in_s is not None:
        if given.expires_at is not None:
            message = "Give 'expires_at' or 'expires_in_s', not both."
            raise ApiError("invalid_value", message, "expires_in_s")
        # Less than a second is less than any time that the store can hold.
        if not 1 <= given.expires_in_s <= LATEST - now:
            message = "Invalid value for 'expires_in_s': 1 or more, and before the year 10000."
            raise ApiError("invalid_value", message, "expires_in_s")
        return int(now + given.expires_in_s)
    if given.expires_at is not None and given.expires_at <= now:
        message = "Invalid value for 'expires_at': a time to come, in seconds since 1970."
        raise ApiError("invalid_value", message, "expires_at")
    return given.expires_at
