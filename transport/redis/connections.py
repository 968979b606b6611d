"""Where Redis is, and the lines to it."""

import asyncio
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from transport.redis.errors import UnsupportedRedis
from transport.redis.events import OnAnswer, OnEvent, measure_nothing
from transport.redis.line import Line, Server, Timeouts
from transport.redis.url import (
    NO_OPTIONS,
    TLS_SCHEMES,
    InvalidRedisUrl,
    RedisUrl,
    parse_redis_url,
)

_BLOCKING_MARGIN_S = 3.0  # what a blocking read may take beyond its own wait


@dataclass(frozen=True)
class RedisConfig:
    """`url` is what `transport.redis.url` takes.

    User and password are those of the URL unless given; with Sentinel they are those of Redis.
    """

    url: str = field(repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    tls_ca_file: Path | None = None  # default: the system's
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    command_timeout_s: float = 1.0
    connect_timeout_s: float = 0.5
    block_s: float = 1.0  # the longest that one blocking read waits

    @property
    def blocking_timeout_s(self) -> float:
        return self.block_s + _BLOCKING_MARGIN_S


class Connections:
    """Lines of three kinds: for commands, for blocking reads, and for asking whether Redis lives.

    A blocked read never holds up a command, and neither holds up the question.
    """

    def __init__(
        self, config: RedisConfig, on_event: OnEvent, on_answer: OnAnswer = measure_nothing
    ) -> None:
        """Raises UnsupportedRedis where the URL says nothing that can be used."""
        self.config = config
        self._on_event = on_event
        self._on_answer = on_answer
        self._pool, self._sentinel = _pool(config)
        self._lines: list[Line] = []
        self.commands = self._line(config.command_timeout_s, attempts=2)
        self.health = self._line(config.command_timeout_s, attempts=1)

    def blocking(self) -> Line:
        """A line of its own for one reader. Nothing is read twice: what was lost is recovered."""
        return self._line(self.config.blocking_timeout_s, attempts=1)

    def unrepeated(self) -> Line:
        """A line of its own for commands that must not run twice: what fails may have been done."""
        return self._line(self.config.command_timeout_s, attempts=1)

    async def close(self) -> None:
        for line in self._lines:
            await line.close()
        if self._sentinel is not None:
            await self._sentinel.aclose()

    def _line(self, answer_s: float, attempts: int) -> Line:
        sentinels = len(self._sentinel.sentinels) if self._sentinel else 0
        connect_s = self.config.connect_timeout_s * (2 + sentinels)  # the socket, and who it is
        timeouts = Timeouts(connect_s, answer_s)
        line = Line(self._connection, timeouts, attempts, self._on_reconnect, self._on_answer)
        self._lines.append(line)
        return line

    async def _on_reconnect(self, server: Server) -> None:
        """Where one line found another server, the others must not stay with the old one."""
        self._on_event("reconnected", "")
        for line in self._lines:
            await line.leave(server)

    def _connection(self) -> AbstractConnection:
        connection: AbstractConnection = self._pool.make_connection()
        return connection


class _SentinelAskedInTurn(Sentinel):
    """Of several that ask at once, redis-py's own would lose Sentinels.

    Whichever answers is put at the head of the list, in exchange for who was there when the
    question began; two such exchanges leave one Sentinel twice and another not at all.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)  # type: ignore[no-untyped-call]
        self._turn = asyncio.Lock()

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        async with self._turn:
            address: tuple[str, int] = await super().discover_master(service_name)
            return address


def _pool(config: RedisConfig) -> tuple[ConnectionPool, Sentinel | None]:
    """The pool only makes connections; the lines keep them. Raises UnsupportedRedis."""
    try:
        url = parse_redis_url(config.url)
    except InvalidRedisUrl as error:
        raise UnsupportedRedis(str(error)) from None
    if url.tls:
        _check_tls(config)
    elif _tls_options(config):
        schemes = " or ".join(f"{scheme}://" for scheme in TLS_SCHEMES)
        raise UnsupportedRedis(f"files of TLS are given, but the URL says no TLS: use {schemes}")
    try:
        make = _sentinel_pool if url.by_sentinel else _server_pool
        pool, sentinel = make(config, url)
        pool.make_connection()  # which is when an option that it does not know is noticed
    except (AttributeError, RedisError, TypeError, ValueError):  # which may tell the password
        raise UnsupportedRedis(NO_OPTIONS) from None
    return pool, sentinel


def _check_tls(config: RedisConfig) -> None:
    """Raises UnsupportedRedis for files that are not there, or not what they should be."""
    authority, certificate, key = config.tls_ca_file, config.tls_cert_file, config.tls_key_file
    if key is not None and certificate is None:
        raise UnsupportedRedis("the key of TLS is given without its certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if authority is not None:
            context.load_verify_locations(authority)
        if certificate is not None:
            context.load_cert_chain(certificate, key, password="")  # never asks a terminal
    except OSError as error:  # ssl.SSLError is one
        files = ", ".join(map(str, filter(None, (authority, certificate, key))))
        raise UnsupportedRedis(f"files of TLS cannot be used: {files}: {error.strerror}") from None


def _server_pool(config: RedisConfig, url: RedisUrl) -> tuple[ConnectionPool, None]:
    options = _options(config) | (_tls_options(config) if url.tls else {})
    # What is given goes before what the URL says, which from_url would let win.
    pool = ConnectionPool.from_url(config.url, **options)
    pool.connection_kwargs.update(_credentials(config.username, config.password))
    return pool, None


def _sentinel_pool(config: RedisConfig, url: RedisUrl) -> tuple[ConnectionPool, Sentinel]:
    options = _options(config)
    if url.tls:
        options |= {"ssl": True, **_tls_options(config)}
    sentinel_options = options | _credentials(config.sentinel_username, config.sentinel_password)
    options |= _credentials(url.username, url.password)
    options |= _credentials(config.username, config.password)
    sentinel = _SentinelAskedInTurn(
        url.addresses, sentinel_kwargs=sentinel_options | _timeouts(config)
    )
    return SentinelConnectionPool(url.service, sentinel, db=url.database, **options), sentinel


def _options(config: RedisConfig) -> dict[str, Any]:
    """The line has its own timeouts, and nothing below it may repeat a command."""
    return {
        "protocol": 2,
        "driver_info": None,  # no CLIENT SETINFO, which no role has a right to
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": None,
        "socket_connect_timeout": config.connect_timeout_s,
        "socket_read_size": 1 << 18,
    }


def _timeouts(config: RedisConfig) -> dict[str, float]:
    """Of the questions to a Sentinel, which redis-py asks."""
    return {"socket_timeout": config.connect_timeout_s}


def _credentials(username: str | None, password: str | None) -> dict[str, str]:
    given = {"username": username, "password": password}
    return {name: value for name, value in given.items() if value is not None}


def _tls_options(config: RedisConfig) -> dict[str, str]:
    given = {
        "ssl_ca_certs": config.tls_ca_file,
        "ssl_certfile": config.tls_cert_file,
        "ssl_keyfile": config.tls_key_file,
    }
    return {name: str(path) for name, path in given.items() if path is not None}
