"""What the URL of a Redis may say; whoever takes one asks here.

A character that a URL reserves splits a password: a part of it reads as a host, a port or a path,
and whatever quotes those quotes the secret. So no error repeats anything of the URL.
"""

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

SENTINEL_SCHEMES = ("redis+sentinel", "rediss+sentinel")
TLS_SCHEMES = ("rediss", "rediss+sentinel")
SCHEMES = ("redis", "rediss", "unix", *SENTINEL_SCHEMES)
_SENTINEL_PORT = 26379
_HOST = re.compile(r"[\w.:%-]+")
# What redis-py would take beside these replaces what a connection here is made with, or breaks it.
_OPTIONS = ("db", "username", "password", "socket_keepalive")
_DATABASE = re.compile(r"[0-9]{1,9}")
_TLS_OPTIONS = ("ssl_cert_reqs", "ssl_check_hostname")
_NO_URL = (
    "not the URL of a Redis: redis://, rediss://, unix://, redis+sentinel:// or "
    "rediss+sentinel://; percent-encode special characters of a password, or give it by itself"
)
_NO_DATABASE = (
    "the path of a Redis URL ends with the number of a database, such as /0; "
    "percent-encode special characters of a password"
)
NO_OPTIONS = (
    "the URL of Redis has an option that is unknown, given twice, or of no such value: "
    f"{', '.join(_OPTIONS)}, with rediss:// also {' and '.join(_TLS_OPTIONS)}; none with Sentinel"
)
_NO_CREDENTIALS = (
    "user and password stand once, before the first Sentinel; percent-encode special characters of "
    "a password, or give it by itself"
)


class InvalidRedisUrl(ValueError):
    """Says why, and holds nothing of the URL."""


@dataclass(frozen=True)
class RedisUrl:
    """`redis[s]://user:password@host:port/db`, `unix://path?db=0` or
    `redis[s]+sentinel://user:password@host:port,host:port/service/db`."""

    scheme: str
    addresses: tuple[tuple[str, int | None], ...]  # host and port; none with unix://
    service: str  # which a Sentinel knows; '' without one
    database: int
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
        if not url.startswith(f"{parts.scheme}://"):  # in capitals, or behind a space
            raise InvalidRedisUrl(_NO_URL)
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
    if parts.scheme == "unix" and (not parts.path or parts.netloc.rpartition("@")[2]):
        raise InvalidRedisUrl(_NO_URL)


def _read(parts: SplitResult) -> RedisUrl:
    """Raises ValueError for a port that is no number."""
    credentials, _, hosts = parts.netloc.rpartition("@")
    username, _, password = map(unquote, credentials.partition(":"))
    options, service, database = _options(parts), "", parts.path.strip("/")
    addresses: tuple[tuple[str, int | None], ...] = ()
    if parts.scheme in SENTINEL_SCHEMES:
        if "@" in credentials:  # of each host, of which one would be taken
            raise InvalidRedisUrl(_NO_CREDENTIALS)
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
    if database and not _DATABASE.fullmatch(database):
        raise InvalidRedisUrl(_NO_DATABASE)
    given = {"db": database, "username": username, "password": password}
    if any(given.get(name) for name in options):  # of two, redis-py takes one
        raise InvalidRedisUrl(NO_OPTIONS)
    said = given | options
    number, user, secret = int(said["db"] or 0), said["username"], said["password"]
    return RedisUrl(parts.scheme, addresses, unquote(service), number, user or None, secret or None)


def _options(parts: SplitResult) -> dict[str, str]:
    """Of the query. Raises InvalidRedisUrl."""
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    options = dict(pairs)
    known: tuple[str, ...] = _OPTIONS + (_TLS_OPTIONS if parts.scheme in TLS_SCHEMES else ())
    if parts.scheme in SENTINEL_SCHEMES:
        known = ()
    if options.keys() - known or len(options) < len(pairs) or not all(options.values()):
        raise InvalidRedisUrl(NO_OPTIONS)
    if not _DATABASE.fullmatch(options.get("db", "0")):
        raise InvalidRedisUrl(NO_OPTIONS)
    return options


def _address(text: str, port: int | None) -> tuple[str, int | None]:
    parts = urlsplit(f"//{text}")
    if parts.port == 0 or _HOST.fullmatch(parts.hostname or "") is None:
        raise InvalidRedisUrl(_NO_URL)
    return parts.hostname or "", parts.port or port
