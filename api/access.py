"""Who calls: the key of a request, and the few paths that need none."""

from collections.abc import Mapping

from api.errors import from_auth
from auth.authenticator import Authenticator
from auth.errors import InvalidKey, MissingKey
from auth.principal import ANONYMOUS, Principal

# Everything else is closed, routes to come included.
OPEN_PATHS = frozenset({"/health/live", "/health/ready"})


def authenticate(authenticator: Authenticator, path: str, headers: Mapping[str, str]) -> Principal:
    """The caller of a request. Raises ApiError 401."""
    if path in OPEN_PATHS:
        return ANONYMOUS
    try:
        return authenticator.authenticate(presented_key(headers))
    except (MissingKey, InvalidKey) as error:
        raise from_auth(error) from None


def presented_key(headers: Mapping[str, str]) -> str | None:
    """The key in `Authorization: Bearer`, else in `api-key` or `x-api-key`."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    return headers.get("api-key") or headers.get("x-api-key")
