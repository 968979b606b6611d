"""URLs that may hold a password: whether they can be, and what may be shown of them.

Nothing here repeats what it was given: see `transport.redis.url`.
"""

import re
from urllib.parse import urlsplit

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from transport.redis.url import SCHEMES, parse_redis_url

_HOST = re.compile(r"[\w.:%-]+")
_NO_DATABASE = "not a database URL; percent-encode special characters of a password"


def check_redis_url(url: str) -> None:
    """Raises ValueError, whose text holds nothing of the URL."""
    parse_redis_url(url)


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
        sound = parts.port != 0 and _HOST.fullmatch(parts.hostname or "")
    except ValueError:
        raise ValueError(no_url) from None
    plain = not parts.query and not parts.fragment and "@" not in url
    if parts.scheme not in ("http", "https") or not sound or not plain:
        raise ValueError(no_url)


def shown_redis_url(url: str) -> str:
    """Without credentials and query, where redis-py takes a password too.

    A name alone is shown neither: it may be a password whose colon was forgotten.
    """
    scheme = url.partition("://")[0] if url.startswith(SCHEMES) else "***"
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
