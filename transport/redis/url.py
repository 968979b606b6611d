"""What the URL of a Redis may say; whoever takes one asks here.

A character that a URL reserves splits a password: a part of it reads as a host, a port or a path,
and whatever quotes those quotes the secret. So no error repeats anything of the URL.
"""

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

SENTINEL_SCHEMES = ("redis+sentinel", "rediss+sentinel")
TLS_SCHEMES = ("rediss", "rediss+sentinel")
SCHEMES = ("redis", "rediss", "unix", *SENTINEL_SCHEMES)
_SENTINEL_PORT = 26379
_HOST = re.compile(r"[\w.:%-]*")
_NO_URL = (
    "not the URL of a Redis: redis://, rediss://, unix://, redis+sentinel:// or "
    "rediss+sentinel://; percent-encode special characters of a password, or give it by itself"
)
_NO_DATABASE = (
    "the path of a Redis URL ends with the number of a database, such as /0; "
    "percent-encode special characters of a password"
)


class InvalidRedisUrl(ValueError):
    """Says why, and holds nothing of the URL."""


@dataclass(frozen=True)
class RedisUrl:
    """`redis[s]://user:password@host:port/db`, `unix://path` or
    `redis[s]+sentinel://user:password@host:port,host:port/service/db`."""

    scheme: str
    addresses: tuple[tuple[str, int | None], ...]  # host and port; none with unix://
    service: str  # which a Sentinel knows; '' without one
    database: int  # of the path
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def by_sentinel(self) -> bool:
        return self.scheme in SENTINEL_SCHEMES

    @property
    def tls(self) -> bool:
        return self.scheme in TLS_SCHEMES


def parse_redis_url(url: str) -> RedisUrl:
    """Raises InvalidRedisUrl."""
    try:
        parts = urlsplit(url)
        _check(parts)
        return _read(parts)
    except InvalidRedisUrl:
        raise
    except ValueError:  # whose text may hold a piece of the password
        raise InvalidRedisUrl(_NO_URL) from None


def _check(parts: SplitResult) -> None:
    # What follows an unencoded /, ? or # of a password ends with the @ before the host.
    if parts.scheme not in SCHEMES or parts.fragment or "@" in parts.path + parts.query:
        raise InvalidRedisUrl(_NO_URL)
    if parts.scheme == "unix" and not parts.path:
        raise InvalidRedisUrl(_NO_URL)


def _read(parts: SplitResult) -> RedisUrl:
    """Raises ValueError for a port that is no number."""
    credentials, _, hosts = parts.netloc.rpartition("@")
    username, _, password = map(unquote, credentials.partition(":"))
    service, database = "", parts.path.strip("/")
    addresses: tuple[tuple[str, int | None], ...] = ()
    if parts.scheme in SENTINEL_SCHEMES:
        service, _, database = database.partition("/")
        addresses = tuple(_address(host, _SENTINEL_PORT) for host in hosts.split(","))
        if not service or service.isdecimal():
            raise InvalidRedisUrl(
                f"{parts.scheme}:// needs the name of a service: //host:26379/mymaster/0"
            )
    elif parts.scheme == "unix":
        database = ""
    else:
        addresses = (_address(hosts, None),)
    if database and not database.isdecimal():
        raise InvalidRedisUrl(_NO_DATABASE)
    return RedisUrl(
        parts.scheme, addresses, service, int(database or 0), username or None, password or None
    )


def _address(text: str, port: int | None) -> tuple[str, int | None]:
    parts = urlsplit(f"//{text}")
    if parts.port == 0 or _HOST.fullmatch(parts.hostname or "") is None:
        raise InvalidRedisUrl(_NO_URL)
    return parts.hostname or "localhost", parts.port or port
