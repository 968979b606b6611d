"""A server whose database goes away, and one whose database is of the first release."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from key_ring import KeyRing, Used
from postgres_server import PostgresServer, running_postgres
from raw_sql import execute
from server_process import ServerProcess, florilege, running

import auth.migrate
from auth.database import sqlite_url
from auth.key import generate_key
from auth.pepper import Peppers, create_peppers
from auth.store import KeyStore

SERVER = (sys.executable, "-m", "bench.simulated_server", "--port", "0", "--admin-port", "0")
BEFORE, DURING = 3, 5  # requests


class SqliteOutage:
    """The directory of the file is elsewhere for a while."""

    def __init__(self, directory: Path) -> None:
        self.url = sqlite_url(directory / "keys.db")
        self._directory, self._away = directory, directory.with_name("away")

    def begin(self) -> None:
        self._directory.rename(self._away)

    def end(self) -> None:
        self._away.rename(self._directory)

    def noticed(self, server: ServerProcess) -> bool:
        return server.said("key_refresh_failed")


class PostgresOutage:
    """Whoever is connected is cut off."""

    def __init__(self, server: PostgresServer) -> None:
        self.url = server.make_database()
        self._server = server

    def begin(self) -> None:
        self._server.stop()

    def end(self) -> None:
        self._server.start()

    def noticed(self, server: ServerProcess) -> bool:
        return (
            server.said("key_refresh_failed")
            and server.metric("florilege_usage_flush_failures_total") >= 1
        )


Outage = SqliteOutage | PostgresOutage


@pytest.fixture(params=["sqlite", "postgresql"])
def outage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Outage]:
    if request.param == "sqlite":
        directory = tmp_path / "database"
        directory.mkdir()
        yield SqliteOutage(directory)
        return
    with running_postgres() as server:
        yield PostgresOutage(server)


def test_keys_work_while_the_database_is_away_and_usage_arrives_later(
    outage: Outage, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    ring = KeyRing(data_dir, outage.url)
    made = ring.make("a", rpm=600, tpm=60_000)
    flags = ["--data-dir", str(data_dir)]
    environ = {"FLORILEGE_DATABASE_URL": outage.url}
    with running([*SERVER, *flags], environ) as server:
        for _ in range(BEFORE):
            assert server.embed(made.key).status_code == 200
        outage.begin()
        for _ in range(DURING):
            assert server.embed(made.key).status_code == 200
        server.wait_for(lambda: outage.noticed(server))
        assert server.embed(made.key).status_code == 200
        outage.end()
        requests = BEFORE + DURING + 1
        used = {made.kid: Used(requests, 4 * requests)}
        server.wait_for(lambda: ring.used() == used, every_s=0.2)
        server.wait_for(lambda: server.said("key_refresh_recovered"))
        ring.revoke(made)
        server.wait_for(lambda: server.embed(made.key).status_code == 401, timeout_s=5)
        assert server.stop() == 0


@contextmanager
def first_release() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auth.migrate, "HEAD", "0001")
        yield


async def make_first_database(url: str, peppers: Peppers) -> tuple[str, str]:
    """With one key, as the first release made it. Returns it and its id."""
    store = KeyStore(url)
    with first_release():
        await store.migrate()
    await store.close()
    key, kid = generate_key()
    print_, digest = peppers.fingerprint(1), peppers.digest(key, 1)
    await execute(url, "INSERT INTO peppers VALUES (1, :fingerprint, 1)", fingerprint=print_)
    await execute(
        url,
        "INSERT INTO keys (kid, digest, pv, name, env, scopes, tpm, created_at, revision)"
        " VALUES (:kid, :digest, 1, 'old', 'live', '[\"embed\"]', 8, 1, 1)",
        kid=kid,
        digest=digest,
    )
    await execute(url, "UPDATE key_revision SET revision = 1")
    return key, kid


def test_a_database_of_the_first_release_is_served_once_it_is_upgraded(tmp_path: Path) -> None:
    url, peppers = sqlite_url(tmp_path / "florilege.db"), create_peppers(tmp_path / "pepper")
    key, kid = asyncio.run(make_first_database(url, peppers))
    flags = ["--data-dir", str(tmp_path)]
    with running([*SERVER, *flags]) as refused:
        assert refused.process.wait(30) == 78
        assert "florilege db upgrade" in "".join(refused.stderr)
    florilege(tmp_path, "db", "upgrade")
    with running([*SERVER, *flags]) as server:
        statuses = [server.embed(key).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]  # its limit holds
        assert server.stop() == 0
    assert KeyRing(tmp_path).used() == {kid: Used(2, 8)}
