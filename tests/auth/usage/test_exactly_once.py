"""Each request is in the usage once, whatever the database does meanwhile."""

import asyncio
import io
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hand_clock import HandClock
from postgres_server import PostgresServer, database_of
from usage_callers import caller, key

from auth.errors import StoreUnavailable
from auth.usage.count import Batch
from auth.usage.query import UsageQuery, UsageTotal
from auth.usage.recorder import UsageRecorder
from auth.usage.store import UsageStore
from observability.logs import configure_logs

WaitUntil = Callable[..., Awaitable[None]]

ONE = "1" * 12
SOCKET = ".s.PGSQL.5432"


class Forgetful(UsageStore):
    """Its answers to a commit are lost, as often as is said."""

    lost = 0

    async def add(self, batch: Batch) -> None:
        await super().add(batch)
        if self.lost:
            self.lost -= 1
            raise StoreUnavailable("the connection was lost")


async def test_commit_whose_answer_is_lost_is_not_counted_twice(
    usage: UsageStore, database_url: str, clock: HandClock
) -> None:
    store = Forgetful(database_url)
    store.lost = 3
    recorder = UsageRecorder(store, now=clock)
    recorder.record(caller(ONE), "m", "embed", 1)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await recorder.flush()
        recorder.record(caller(ONE), "m", "embed", 2)
    assert await usage.totals(UsageQuery()) == [UsageTotal(requests=1, tokens=1)]
    # Nor is it counted twice by whoever asks meanwhile.
    assert await recorder.used(key(ONE), "daily") == 7
    await recorder.flush()
    await recorder.flush()
    assert await usage.totals(UsageQuery()) == [UsageTotal(requests=4, tokens=7)]
    await store.close()


class CommitEater:
    """Between a gateway and PostgreSQL: hands a COMMIT on, and cuts before its answer comes."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.armed = False
        self.eaten = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(self._server)
        back = asyncio.create_task(_copy(from_server, writer))
        while data := await reader.read(65536):
            eats = self.armed and b"COMMIT" in data
            if eats:
                back.cancel()
                await asyncio.gather(back, return_exceptions=True)
            to_server.write(data)
            if eats:
                await from_server.readuntil(b"COMMIT\x00")  # it is done
                self.armed = False
                self.eaten += 1
                break
        for side in (writer, to_server):
            side.close()
        await asyncio.gather(back, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


@asynccontextmanager
async def eating(url: str) -> AsyncIterator[tuple[str, CommitEater]]:
    directory = Path(tempfile.mkdtemp(prefix="pg-"))  # short, as the names of sockets must be
    eater = CommitEater(str(Path(url.partition("host=")[2], SOCKET)))
    server = await asyncio.start_unix_server(eater.serve, directory / SOCKET)
    try:
        yield f"postgresql+asyncpg://postgres@/{database_of(url)}?host={directory}", eater
    finally:
        server.close()
        await server.wait_closed()
        shutil.rmtree(directory)


@pytest.mark.parametrize("backend", ["postgresql"])
async def test_connection_cut_between_the_commit_and_its_answer_doubles_nothing(
    usage: UsageStore, database_url: str
) -> None:
    async with eating(database_url) as (url, eater):
        store = UsageStore(url)
        recorder = UsageRecorder(store)
        for number in range(5):
            recorder.record(caller(ONE), "m", "embed", 1)
            eater.armed = True
            with pytest.raises(StoreUnavailable):
                await recorder.flush()
            assert eater.eaten == number + 1
            await recorder.flush()
        await store.close()
    assert await usage.totals(UsageQuery()) == [UsageTotal(requests=5, tokens=5)]


@asynccontextmanager
async def database_down(request: pytest.FixtureRequest, backend: str) -> AsyncIterator[None]:
    if backend == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        server.stop()
        yield
        server.start()
        return
    database: Path = request.getfixturevalue("database")
    aside = database.with_suffix(".aside")
    database.rename(aside)
    database.mkdir()  # in its place something that is no file
    yield
    database.rmdir()
    aside.rename(database)


async def test_while_the_database_is_down_usage_is_kept_and_written_later(
    request: pytest.FixtureRequest, backend: str, usage: UsageStore, wait_until: WaitUntil
) -> None:
    output = io.StringIO()
    configure_logs(stream=output)
    failures: list[str] = []
    recorder = UsageRecorder(usage, flush_s=0.01, on_event=failures.append)
    running = asyncio.create_task(recorder.run())
    recorder.record(caller(ONE), "m", "embed", 1)
    await wait_until(lambda: recorder.pending(key(ONE), "daily") == 0)
    async with database_down(request, backend):
        for count in range(1, 4):
            recorder.record(caller(ONE), "m", "embed", 1)
            await wait_until(lambda count=count: len(failures) > count)
        assert await recorder.used(key(ONE), "daily") is None
        assert recorder.pending(key(ONE), "daily") == 3
    await wait_until(lambda: recorder.pending(key(ONE), "daily") == 0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert await usage.totals(UsageQuery()) == [UsageTotal(requests=4, tokens=4)]
    events = [json.loads(line)["event"] for line in output.getvalue().splitlines()]
    assert events == ["usage_flush_failed", "usage_flush_recovered"]
    assert set(failures) == {"flush_failed"}
