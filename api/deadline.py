"""How long a request may take, and in which lane it runs: what the caller's headers say."""

from collections.abc import Mapping
from typing import cast, get_args

from api.errors import ApiError
from transport.messages import Lane

# The SDKs send their own timeout, in seconds; answering later would be for nobody.
_SECONDS_HEADERS = ("x-stainless-read-timeout", "x-stainless-timeout")


def timeout_s(headers: Mapping[str, str], default_s: float, cap_s: float) -> float:
    """Seconds until nobody waits any more. Raises ApiError for a header that is no time."""
    own = headers.get("x-florilege-timeout-ms")
    if own is not None:
        value = _positive(own)
        if value is None:
            name = "x-florilege-timeout-ms"
            raise ApiError("invalid_value", f"'{name}' must be a positive number.", name)
        return min(value / 1000, cap_s)
    for name in _SECONDS_HEADERS:
        value = _positive(headers.get(name, ""))
        if value is not None:  # another spelling is the SDK's affair, not an error of the caller
            return min(value, cap_s)
    return default_s


def asked_lane(headers: Mapping[str, str], of_key: Lane | None) -> Lane | None:
    """The header's lane, else the key's; None: the size of the request decides."""
    asked = headers.get("x-florilege-lane")
    if asked is not None and asked not in get_args(Lane):
        name = "x-florilege-lane"
        raise ApiError("invalid_value", f"'{name}' is 'online' or 'bulk'.", name)
    return cast("Lane | None", asked) or of_key


def _positive(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None
