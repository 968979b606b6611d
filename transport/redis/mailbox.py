"""The stream in which the answers to one gateway arrive."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from redis.exceptions import ResponseError

from observability.logs import get_logger, place_of
from transport.redis.backoff import Backoff
from transport.redis.connections import Connections
from transport.redis.errors import Unreachable
from transport.redis.keys import reply_key
from transport.redis.line import Line, Server
from transport.redis.replies import Assembly, Reply

_MOST_READ = 256  # entries in one answer: 16 MB


@dataclass(frozen=True)
class MailboxConfig:
    keep_alive_s: float = 1.0  # how often Redis is asked whether it still knows us
    ttl_s: int = 60  # how long the mail of a dead gateway is kept
    healthy_s: float = 5.0  # how old the last answer of Redis may be


class Listener(NamedTuple):
    """Who is told of what comes, and of what was lost."""

    on_reply: Callable[[Reply], None]
    on_unreadable: Callable[[], None]
    on_broken: Callable[[str], None]  # a job whose answer came in part, and will not be whole
    on_loss: Callable[[], None]
    on_return: Callable[[], None]  # Redis answers again, after it was away for too long


class Mailbox:
    """Reads the stream, keeps it alive, and says when Redis has forgotten it.

    It is forgotten when it is gone, and when another server answers, which may hold the stream and
    lack jobs. `memory` counts those memories.
    """

    def __init__(
        self,
        gateway: str,
        connections: Connections,
        config: MailboxConfig,
        listener: Listener,
    ) -> None:
        self.memory = 0
        self._told_memory = 0  # the last whose loss of all before was told of
        self._stream = reply_key(gateway)
        self._connections = connections
        self._config = config
        self._listener = listener
        self._assembly = Assembly()
        self._read_until = b"0-0"
        self._run_id = ""  # of the server that answered last
        self._answered_s = self._read_s = float("-inf")  # when Redis last did
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Raises what `Line.execute` raises."""
        await self._make()
        self._answered_s = self._read_s = asyncio.get_running_loop().time()
        self._tasks = [
            asyncio.create_task(self._keep_alive()),
            asyncio.create_task(self._read_all()),
        ]

    async def stop(self) -> None:
        """Read no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def remove(self) -> None:
        with contextlib.suppress(Unreachable, ResponseError):
            await self._connections.commands.execute("DEL", self._stream)

    @property
    def healthy(self) -> bool:
        """Whether Redis answered lately, the reader as well."""
        since_s = asyncio.get_running_loop().time() - self._config.healthy_s
        waits_s = self._connections.config.block_s
        return self._answered_s > since_s and self._read_s + waits_s > since_s

    def _heard(self, *, read: bool) -> None:
        """Of the reader, or of who keeps the stream alive."""
        was_healthy, now_s = self.healthy, asyncio.get_running_loop().time()
        if read:
            self._read_s = now_s
        else:
            self._answered_s = now_s
        if self.healthy and not was_healthy:
            self._listener.on_return()

    def written_within(self, age_s: float) -> bool:
        """Whether Redis took what keeps the stream alive: it may answer, and take nothing."""
        return asyncio.get_running_loop().time() - self._answered_s <= age_s

    async def _read_all(self) -> None:
        line, backoff = self._connections.blocking(), Backoff()
        while True:
            try:
                await self._remember(await line.connect())
                await self._read_some(line)
                backoff.reset()
            except (Unreachable, ResponseError) as error:
                if backoff.failures == 0:
                    get_logger().warning("replies_unreachable", error=str(error))
                await asyncio.sleep(backoff.next_s())
            except Exception as error:  # nobody would read any more
                get_logger().error("replies_failed", **place_of(error))
                await asyncio.sleep(backoff.next_s())

    async def _read_some(self, line: Line) -> None:
        """Wait for replies, and trim what was read by the same write that waits for more."""
        memory, block_ms = self.memory, int(self._connections.config.block_s * 1000)
        trim = ("XTRIM", self._stream, "MINID", _next_id(self._read_until))
        start = ("STREAMS", self._stream, self._read_until)
        read = ("XREAD", "COUNT", _MOST_READ, "BLOCK", block_ms, *start)
        answers = await line.execute_all([trim, read])
        for answer in answers:
            if isinstance(answer, ResponseError):
                if not str(answer).startswith("WRONGTYPE"):
                    raise answer
                await self._connections.health.execute("DEL", self._stream)
                await self._begin_anew()
                return
        self._heard(read=True)
        if memory != self.memory:  # the stream has begun anew meanwhile, and is read from there
            return
        for _, entries in answers[1] or ():
            for entry_id, fields in entries:
                self._read_until = entry_id
                self._take(fields)

    def _take(self, fields: list[bytes]) -> None:
        failed = False
        try:
            reply = self._assembly.add(fields)
            if reply is not None:
                self._listener.on_reply(reply)
        except Exception as error:  # one that is unreadable is no reason to lose the others
            get_logger().error("reply_unreadable", **place_of(error))
            failed = True
        broken = self._assembly.take_broken()
        if broken and not failed:
            get_logger().error("reply_incomplete", jobs=len(broken))
        for _ in range(max(len(broken), failed)):
            self._listener.on_unreadable()
        for job_id in broken:
            self._listener.on_broken(job_id)

    async def _keep_alive(self) -> None:
        line = self._connections.health
        while True:
            try:
                await self._remember(await line.connect())
                known = await line.execute("EXPIRE", self._stream, self._config.ttl_s)
                if not known or self._told_memory != self.memory:
                    await self._begin_anew()
                self._heard(read=False)
            except (Unreachable, ResponseError):
                pass
            except Exception as error:  # nobody would notice a loss any more
                get_logger().error("keep_alive_failed", **place_of(error))
            await asyncio.sleep(self._config.keep_alive_s)

    async def _remember(self, server: Server) -> None:
        if self._run_id not in ("", server.run_id):
            await self._begin_anew()
        self._run_id = server.run_id

    async def _begin_anew(self) -> None:
        """Where the answer of `_make` is lost, the loss is still to be told of."""
        get_logger().warning("redis_lost_its_memory")
        self.memory += 1
        memory = self.memory
        self._read_until = b"0-0"
        self._assembly.clear()
        await self._make()
        self._listener.on_loss()
        self._told_memory = max(self._told_memory, memory)

    async def _make(self) -> None:
        """A group is what makes a stream without entries."""
        line = self._connections.health
        make = ("XGROUP", "CREATE", self._stream, "x", "0", "MKSTREAM")
        expire = ("EXPIRE", self._stream, self._config.ttl_s)
        made, _ = await line.execute_all([make, expire])
        if isinstance(made, ResponseError) and not str(made).startswith("BUSYGROUP"):
            raise made


def _next_id(entry_id: bytes) -> str:
    milliseconds, sequence = entry_id.decode().split("-")
    return f"{milliseconds}-{int(sequence) + 1}"
