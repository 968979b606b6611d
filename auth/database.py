"""The connection to the database, and what SQLite and PostgreSQL need of it."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import aiosqlite
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from auth.errors import StoreUnavailable

BUSY_TIMEOUT_S = 10.0  # a writer waits this long for another before it fails
_CONNECT_S = 5.0  # of PostgreSQL
_POSTGRESQL = {"postgresql", "postgres", "postgresql+asyncpg"}  # the ways to name it
_BEGIN = "florilege_begin"  # execution option: how SQLite begins the transaction

# isolation_level None: the driver's own transactions start too late to cover reads and CREATE
# TABLE. mode=rw (below): connecting fails where there is no file.
_SQLITE_OPTIONS: dict[str, Any] = {
    "uri": True,
    "isolation_level": None,
    "timeout": BUSY_TIMEOUT_S,
}


def sqlite_url(file: Path) -> str:
    """The URL of an SQLite file, whatever characters its path holds."""
    return URL.create("sqlite+aiosqlite", database=str(file)).render_as_string()


class Database:
    """Transactions on one database. A SQLite file is made by `create`, never by looking."""

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(url)
            self._file = _sqlite_file(parsed)
            if self._file is None:
                self._engine = _postgresql_engine(parsed)
            else:
                self._engine = _sqlite_engine(self._file)
        except (ArgumentError, ValueError):
            # The text may hold a password: it is not repeated.
            raise StoreUnavailable("the database URL cannot be read") from None
        except ModuleNotFoundError as error:
            raise StoreUnavailable(f"the database driver {error.name} is not installed") from None
        self._writing = self._engine.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})

    def exists(self) -> bool:
        """Whether there is anything to read; a server is always taken to exist."""
        try:
            return self._file is None or self._file.exists()
        except OSError as error:
            raise StoreUnavailable(f"{self._file}: {error.strerror}") from error

    def create(self, fill: Callable[[Connection], None]) -> None:
        """Make an SQLite file (mode 0600, its directory 0700) with what `fill` puts into it.

        It appears whole or not at all; who comes second changes nothing. Blocks for about 0.1 s.
        """
        if self._file is None:
            return
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with TemporaryDirectory(dir=self._file.parent, prefix=".new-") as directory:
                new = Path(directory, self._file.name)
                new.touch(mode=0o600)
                _fill(new, fill)
                with suppress(FileExistsError):
                    self._file.hardlink_to(new)
        except OSError as error:
            raise StoreUnavailable(f"{self._file}: {error.strerror}") from error

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """One transaction, its reads of one moment. Raises `StoreUnavailable`."""
        async with _transaction(self._engine) as connection:
            yield connection

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """One transaction, undone if the block raises. Raises `StoreUnavailable`."""
        async with _transaction(self._writing) as connection:
            yield connection

    async def close(self) -> None:
        await self._engine.dispose()


def _sqlite_file(url: URL) -> Path | None:
    if url.get_backend_name() != "sqlite":
        return None
    if not url.database or url.database == ":memory:":
        raise StoreUnavailable("keys need an SQLite file: one in memory would be lost")
    return Path(url.database)


def _fill(file: Path, fill: Callable[[Connection], None]) -> None:
    def connect() -> sqlite3.Connection:
        connection: sqlite3.Connection = sqlite3.connect(_uri(file), **_SQLITE_OPTIONS)
        return connection

    # The file keeps the mode, in which readers go on while another process writes. It is chosen
    # while nobody else knows the file: switching one in use fails rather than waits.
    with closing(connect()) as wal:
        wal.execute("PRAGMA journal_mode = WAL")
    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
    _hook(engine)
    with engine.begin() as connection:
        fill(connection)


@asynccontextmanager
async def _transaction(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    try:
        async with AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(engine.begin())
            except TypeError as error:  # of the driver, which the URL's options are arguments of
                raise StoreUnavailable(f"the database URL cannot be used: {error}") from None
            yield connection
    except (DBAPIError, PoolTimeout, OSError) as error:
        raise StoreUnavailable(f"the database failed: {_cause(error)}") from error


def _cause(error: Exception) -> str:
    """The driver's own words alone: SQLAlchemy adds the statement and its parameters, and
    PostgreSQL, from its second line on, the values of a row."""
    cause = getattr(error, "orig", None) or error
    return next(iter(str(cause).splitlines()), type(cause).__name__)


def _postgresql_engine(url: URL) -> AsyncEngine:
    if url.drivername not in _POSTGRESQL:
        raise StoreUnavailable("keys are kept in SQLite or PostgreSQL")
    query = dict(url.query)
    if "sslmode" in query:  # as everybody else calls it
        query["ssl"] = query.pop("sslmode")
    return create_async_engine(
        url.set(drivername="postgresql+asyncpg", query=query),
        pool_pre_ping=True,  # the server may have been restarted since
        pool_size=2,
        pool_timeout=BUSY_TIMEOUT_S,
        connect_args={
            "timeout": _CONNECT_S,
            "command_timeout": BUSY_TIMEOUT_S,
            "server_settings": {"application_name": "florilege"},
        },
    )


def _sqlite_engine(file: Path) -> AsyncEngine:
    async def connect() -> aiosqlite.Connection:
        connection = aiosqlite.connect(_uri(file), **_SQLITE_OPTIONS)
        connection._thread.daemon = True  # as SQLAlchemy does: a leak must not keep the process
        try:
            return await connection
        except BaseException:
            # Its thread, about to end, reports to the event loop, which by then may be closed.
            connection._thread.join()
            raise

    # No pool: a connection is one `open`, and a pooled one would go on reading a file that a
    # backup has replaced.
    engine = create_async_engine("sqlite+aiosqlite://", async_creator=connect, poolclass=NullPool)
    _hook(engine.sync_engine)
    return engine


def _uri(file: Path) -> str:
    return f"file:{quote(str(file.absolute()))}?mode=rw"


def _hook(engine: Engine) -> None:
    event.listen(engine, "connect", _enforce_foreign_keys)
    event.listen(engine, "begin", _begin)


def _enforce_foreign_keys(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    # A transaction that reads first and writes later could not wait for another writer: IMMEDIATE
    # takes the lock at once.
    connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))
