"""One connection to Redis, shared by many tasks: what waits travels in one write."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AuthenticationError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from transport.redis.errors import Unreachable, UnsupportedRedis
from transport.redis.events import OnAnswer, measure_nothing
from transport.redis.patience import patience

Argument = bytes | memoryview | str | int | float
_LEAST_VERSION = (7, 0)
_MOST_AT_ONCE = 256  # commands in one write
_SLOWEST_BYTES_S = 10e6  # a network that carries less is none
_WAITING_READS = ("XREAD", "XREADGROUP")  # how long they take says nothing of Redis


class Server(NamedTuple):
    """Who answered: another `run_id` is another memory."""

    run_id: str
    version: str


class Timeouts(NamedTuple):
    connect_s: float
    answer_s: float  # of all that was sent at once


@dataclass(eq=False)
class _Command:
    arguments: tuple[Argument, ...]
    answer: asyncio.Future[Any]
    op: str  # of a metric
    since_s: float


class Line:
    """Commands of all tasks in order, over one connection; it is made anew when it breaks.

    A task that is cancelled while it waits leaves the connection whole: another task reads it.
    """

    def __init__(
        self,
        make_connection: Callable[[], AbstractConnection],
        timeouts: Timeouts,
        attempts: int,
        on_reconnect: Callable[[Server], Awaitable[None]],
        on_answer: OnAnswer = measure_nothing,
    ) -> None:
        """`attempts` above 1 is for commands that may run twice, and for those alone."""
        self.timeouts = timeouts
        self.server: Server | None = None  # of the last connection
        self._make_connection = make_connection
        self._attempts = attempts
        self._on_reconnect = on_reconnect
        self._on_answer = on_answer
        self._connection: AbstractConnection | None = None
        self._waiting: deque[_Command] = deque()
        self._exchanging: asyncio.Task[None] | None = None

    async def execute(self, *arguments: Argument, op: str = "") -> Any:
        """The raw answer. `op`: what a metric calls it; default the command's name.

        Raises:
            Unreachable: no answer came in time; UnsupportedRedis, a kind of it: none ever will.
            ResponseError: Redis refused the command.
        """
        return await self._enqueue(arguments, op)

    async def execute_all(self, commands: Sequence[tuple[Argument, ...]]) -> list[Any]:
        """The raw answers, in order; a ResponseError stands where a command was refused.

        Raises Unreachable.
        """
        answers = await asyncio.gather(
            *[self._enqueue(command) for command in commands], return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, ResponseError):
                raise answer
        return answers

    async def connect(self) -> Server:
        """Who answers on this line; connects where it does not yet."""
        while self.server is None or not self.connected:
            await self.execute("PING")
        return self.server

    @property
    def connected(self) -> bool:
        return self._connection is not None and self._connection.is_connected

    async def leave(self, server: Server) -> None:
        """Connect anew, unless to this server: the others are no longer the master."""
        if self.server is not None and self.server.run_id != server.run_id:
            await self._disconnect()

    async def close(self) -> None:
        if self._exchanging is not None:
            self._exchanging.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._exchanging
        for command in self._waiting:
            _fail(command, Unreachable("closed"))
        self._waiting.clear()
        await self._disconnect()

    def _enqueue(self, arguments: tuple[Argument, ...], op: str = "") -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        op = op or str(arguments[0])
        self._waiting.append(_Command(arguments, answer, op, time.perf_counter()))
        if self._exchanging is None or self._exchanging.done():
            self._exchanging = asyncio.create_task(self._exchange())
        return answer

    async def _exchange(self) -> None:
        """Send what waits, read the answers, until nothing waits."""
        batch: deque[_Command] = deque()
        try:
            while self._waiting:
                count = min(len(self._waiting), _MOST_AT_ONCE)
                batch.extend(self._waiting.popleft() for _ in range(count))
                await self._exchange_batch(batch)
        finally:
            for command in batch:  # of a line that was closed
                _fail(command, Unreachable("closed"))

    async def _exchange_batch(self, batch: deque[_Command]) -> None:
        error: Exception = Unreachable("no attempt")
        for _ in range(self._attempts):
            try:
                connection = await self._connected()
                packed = [_pack(command.arguments) for command in batch]
                slow_s = sum(map(len, packed)) / _SLOWEST_BYTES_S
                async with patience(self.timeouts.answer_s + slow_s):
                    await connection.send_packed_command(packed, check_health=False)
                    await self._read_answers(connection, batch)
                return
            except UnsupportedRedis as refusal:
                error = refusal
                break
            except (RedisError, OSError, TimeoutError) as failure:
                error = Unreachable(f"{type(failure).__name__}: {failure}")
            finally:
                if batch:
                    await self._disconnect()
        while batch:
            _fail(batch.popleft(), error)

    async def _read_answers(self, connection: AbstractConnection, batch: deque[_Command]) -> None:
        """Takes each command out of the batch when it is answered."""
        while batch:
            try:
                answer = await connection.read_response()
            except ResponseError as refusal:
                if _is_of_the_server(refusal):
                    raise RedisConnectionError(str(refusal)) from None
                _fail(batch.popleft(), refusal)
                continue
            command = batch.popleft()
            if not command.answer.done():
                command.answer.set_result(answer)
            if command.op not in _WAITING_READS:
                self._on_answer(command.op.lower(), time.perf_counter() - command.since_s)

    async def _connected(self) -> AbstractConnection:
        if self._connection is None:
            self._connection = self._make_connection()
        if not self._connection.is_connected:
            try:
                async with asyncio.timeout(self.timeouts.connect_s):
                    await self._connection.connect()
                    server = await _identify(self._connection)
            except AuthenticationError as refusal:
                if self.server is None:
                    raise UnsupportedRedis(f"Redis lets us not in: {refusal}") from None
                raise  # they may be changing the password: it is asked again
            except (ResponseError, RedisConnectionError) as refusal:  # redis-py makes that of this
                if "DB index" in str(refusal):
                    raise UnsupportedRedis("this Redis has no database of that number") from None
                raise
            known, self.server = self.server, server
            if known is not None:
                await self._on_reconnect(server)
        return self._connection

    async def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(RedisError, OSError):
                await self._connection.disconnect(nowait=True)


async def _identify(connection: AbstractConnection) -> Server:
    await connection.send_command("INFO", "server", check_health=False)
    text = (await connection.read_response()).decode()
    info = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    version = info["redis_version"]
    if info.get("redis_mode", info.get("server_mode")) == "cluster":  # Redis', and Valkey's name
        raise UnsupportedRedis(
            "this is a Redis Cluster: its scripts cannot reach a job, its counter and its reply at "
            "once. Use one Redis, with Sentinel where it must fail over"
        )
    if tuple(int(part) for part in version.split(".")[:2]) < _LEAST_VERSION:
        least = ".".join(map(str, _LEAST_VERSION))
        raise UnsupportedRedis(f"Redis {version} is too old: {least} or later is needed")
    return Server(info["run_id"], version)


def _pack(arguments: tuple[Argument, ...]) -> bytes:
    """In C: five times as fast as a connection's own."""
    packed: bytes = pack_command(arguments)  # type: ignore[arg-type]  # of any length
    return packed


def _is_of_the_server(refusal: ResponseError) -> bool:
    """Whether another connection may be answered: this server has become, or is, a replica."""
    return isinstance(refusal, ReadOnlyError) or str(refusal).startswith(
        ("UNBLOCKED", "MASTERDOWN")
    )


def _fail(command: _Command, error: Exception) -> None:
    if not command.answer.done():
        command.answer.set_exception(error)
