"""A TCP proxy that does to connections what networks do: delays, lost replies, half-open ends."""

import asyncio
import contextlib
import random
from dataclasses import dataclass, field

_CHUNK_BYTES = 1 << 16


@dataclass(eq=False)
class _Pair:
    """A client's connection, and the one to the server in its name."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    is_half_closed: bool = False
    pumps: list[asyncio.Task[None]] = field(default_factory=list)

    def abort(self) -> None:
        for writer in (self.client, self.server):
            writer.transport.abort()


class Proxy:
    """`start` it, and clients connect to `port`. Without a fault it passes everything on."""

    def __init__(self, server_port: int) -> None:
        self.port = 0
        self.delay_s = 0.0  # of each reply
        self.drop_share = 0.0  # of replies: the command ran, and its connection breaks
        self.dropped = 0
        self.delayed = 0
        self._server_port = server_port
        self._pairs: set[_Pair] = set()
        self._random = random.Random(7)  # noqa: S311
        self._passing = asyncio.Event()
        self._passing.set()
        self._listener: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def connections(self) -> int:
        return len(self._pairs)

    async def start(self) -> None:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._listener is not None
        self._listener.close()
        self.pass_on()
        for pair in self._pairs:
            pair.abort()
        while self._pairs:
            await asyncio.sleep(0.001)

    def black_hole(self) -> None:
        """Everything is taken and nothing comes out: no end hears of it."""
        self._passing.clear()

    def pass_on(self) -> None:
        self._passing.set()

    def half_close(self) -> None:
        """Each client hears the end of its connection, which the server still serves."""
        for pair in self._pairs:
            pair.is_half_closed = True
            with contextlib.suppress(OSError):
                pair.client.write_eof()

    def forget_half_closed(self) -> None:
        for pair in [pair for pair in self._pairs if pair.is_half_closed]:
            pair.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair(writer, to_server)
        self._pairs.add(pair)
        pair.pumps = [
            asyncio.create_task(self._pump_commands(reader, pair)),
            asyncio.create_task(self._pump_replies(from_server, pair)),
        ]
        await asyncio.gather(*pair.pumps)
        pair.abort()
        self._pairs.discard(pair)

    async def _pump_commands(self, reader: asyncio.StreamReader, pair: _Pair) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                await self._passing.wait()
                pair.server.write(data)
                await pair.server.drain()
        if not pair.is_half_closed:
            await self._passing.wait()
            pair.abort()

    async def _pump_replies(self, reader: asyncio.StreamReader, pair: _Pair) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                await self._passing.wait()
                if self.delay_s:
                    self.delayed += 1
                    await asyncio.sleep(self.delay_s)
                if self._random.random() < self.drop_share:
                    self.dropped += 1
                    break
                if not pair.is_half_closed:
                    pair.client.write(data)
                    await pair.client.drain()
        pair.abort()
