"""URLs that may hold a password: whether they can be, and what may be shown of them.

A character that a URL reserves splits a password: a part of it reads as a host, a port or a path,
and whatever quotes those quotes the secret. So nothing here repeats what it was given.
"""

import re
from urllib.parse import SplitResult, urlsplit

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

_SENTINEL_SCHEMES = ("redis+sentinel", "rediss+sentinel")
REDIS_SCHEMES = ("redis", "rediss", "unix", *_SENTINEL_SCHEMES)
_HOST = re.compile(r"[\w.:%-]*")
_NO_REDIS = (
    "not the URL of a Redis; percent-encode special characters of a password, or use "
    "--redis-password"
)
_NO_DATABASE = "not a database URL; percent-encode special characters of a password"


def check_redis_url(url: str) -> None:
    """Raises ValueError, whose text holds nothing of the URL."""
    try:
        parts = urlsplit(url)
        scheme, sound = parts.scheme, _is_redis(parts)
    except ValueError:
        raise ValueError(_NO_REDIS) from None
    if scheme not in REDIS_SCHEMES:
        raise ValueError(f"expected a URL of {' | '.join(REDIS_SCHEMES)}")
    if not sound:
        raise ValueError(_NO_REDIS)
    if scheme in _SENTINEL_SCHEMES and not parts.path.strip("/"):
        raise ValueError(f"{scheme}:// needs the name of a service: //host:26379/mymaster/0")


def check_database_url(url: str) -> None:
    """Raises ValueError, whose text holds nothing of the URL."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise ValueError(_NO_DATABASE) from None
    beyond = f"{parsed.host or ''}{parsed.database or ''}{parsed.query}"
    if not parsed.drivername.startswith("sqlite") and "@" in beyond:  # a file's name may have one
        raise ValueError(_NO_DATABASE)


def check_http_url(url: str) -> None:
    """Without credentials, which would be shown. Raises ValueError, as above."""
    no_url = "expected http://HOST:PORT or https://HOST:PORT, without user and password"
    try:
        parts = urlsplit(url)
        sound = parts.port != 0 and bool(parts.hostname) and _HOST.fullmatch(parts.hostname or "")
    except ValueError:
        raise ValueError(no_url) from None
    plain = not parts.query and not parts.fragment and "@" not in url
    if parts.scheme not in ("http", "https") or not sound or not plain:
        raise ValueError(no_url)


def shown_redis_url(url: str) -> str:
    """Without credentials and query, where redis-py takes a password too.

    A name alone is shown neither: it may be a password whose colon was forgotten.
    """
    scheme = url.partition("://")[0] if url.startswith(REDIS_SCHEMES) else "***"
    try:
        check_redis_url(url)
    except ValueError:
        return f"{scheme}://***"
    credentials, at, place = url.partition("://")[2].rpartition("@")
    user, colon, _ = credentials.partition(":")
    shown = f"{user}:***" if colon else "***" * bool(at)
    return f"{scheme}://{shown}{at}{place.partition('?')[0]}"


def shown_database_url(url: str) -> str:
    """Without password and query, where drivers take one too."""
    try:
        check_database_url(url)
    except ValueError:
        return "***"
    return make_url(url).set(query={}).render_as_string(hide_password=True)


def _is_redis(parts: SplitResult) -> bool:
    """Raises ValueError for a port that is no number."""
    # What follows an unencoded /, ? or # of a password ends with the @ before the host.
    if parts.fragment or "@" in parts.path + parts.query:
        return False
    if parts.scheme == "unix":
        return bool(parts.path)
    hosts, db = [parts.netloc.rpartition("@")[2]], parts.path.strip("/")
    if parts.scheme in _SENTINEL_SCHEMES:
        hosts, db = hosts[0].split(","), db.partition("/")[2]
    return all(map(_is_host, hosts)) and (not db or db.isdecimal())


def _is_host(text: str) -> bool:
    parts = urlsplit(f"//{text}")
    return parts.port != 0 and _HOST.fullmatch(parts.hostname or "") is not None
