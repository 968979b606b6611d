"""How soon a revoked key is refused, and that nothing else stops a key."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from key_server import KeyServer
from postgres_server import PostgresServer
from redis_server import RedisServer, running_redis

from auth.errors import StoreUnavailable
from auth.nudge import LocalNudge, Nudge
from auth.pepper import Peppers
from auth.record import NewKey
from auth.store import KeyStore
from auth.watch import ALONE_POLL_S, POLL_S
from transport.redis.connections import Connections, RedisConfig
from transport.redis.nudge import RedisNudge

WaitUntil = Callable[..., Awaitable[None]]

BOUND_S = 5.0
TYPICAL_S = 1.0


async def revocations_s(
    store: KeyStore, server: KeyServer, peppers: Peppers, sender: Nudge | None, times: int
) -> list[float]:
    """From the moment a revocation is committed to the refusal, once for each key."""
    keys = [await store.create(NewKey(name=str(n)), peppers) for n in range(times)]
    await server.watch.refresh()
    running = asyncio.create_task(server.watch.run())
    took_s = []
    for key, record in keys:
        assert server.admits(key)
        await store.revoke(record.kid)
        if sender is not None:
            await sender.send()
        revoked = time.perf_counter()
        async with asyncio.timeout(BOUND_S):
            while server.admits(key):
                await asyncio.sleep(0.001)
        took_s.append(time.perf_counter() - revoked)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return took_s


def tell(how: str, backend: str, took_s: list[float]) -> None:
    median, worst = statistics.median(took_s), max(took_s)
    print(f"\nrevocation, {how}, {backend}: median {median:.3f} s, worst {worst:.3f} s")


@pytest.mark.parametrize("poll_s", [POLL_S, ALONE_POLL_S])
async def test_by_polls_alone_a_revoked_key_is_refused_in_time(
    store: KeyStore, backend: str, peppers: Peppers, poll_s: float
) -> None:
    await store.migrate()
    server = KeyServer(store, lambda: peppers, poll_s=poll_s)
    took_s = await revocations_s(store, server, peppers, None, times=1)
    tell(f"a poll every {poll_s} s", backend, took_s)
    assert max(took_s) < poll_s + 1


async def test_within_one_process_a_revoked_key_is_refused_at_once(
    store: KeyStore, backend: str, peppers: Peppers
) -> None:
    await store.migrate()
    nudge = LocalNudge()
    server = KeyServer(store, lambda: peppers, nudge=nudge, poll_s=3600)
    took_s = await revocations_s(store, server, peppers, nudge, times=10)
    tell("nudged in the process", backend, took_s)
    assert statistics.median(took_s) < TYPICAL_S


async def test_nudged_over_redis_a_revoked_key_is_refused_at_once(
    store: KeyStore, backend: str, peppers: Peppers
) -> None:
    await store.migrate()
    with running_redis() as redis:
        ours, theirs = [Connections(RedisConfig(redis.url), lambda *_: None) for _ in range(2)]
        server = KeyServer(store, lambda: peppers, nudge=RedisNudge(ours), poll_s=3600)
        took_s = await revocations_s(store, server, peppers, RedisNudge(theirs), times=10)
        await ours.close()
        await theirs.close()
    tell("nudged over Redis", backend, took_s)
    assert statistics.median(took_s) < TYPICAL_S


async def test_without_redis_the_poll_still_finds_a_revoked_key(
    store: KeyStore, backend: str, peppers: Peppers, tmp_path: Path
) -> None:
    await store.migrate()
    away = RedisConfig(RedisServer(tmp_path).url)
    connections = Connections(away, lambda *_: None)
    nudge = RedisNudge(connections)
    server = KeyServer(store, lambda: peppers, nudge=nudge, poll_s=ALONE_POLL_S)
    took_s = await revocations_s(store, server, peppers, nudge, times=2)
    await connections.close()
    tell("Redis away", backend, took_s)
    assert max(took_s) < BOUND_S


class Outage:
    """The database goes, and comes back as it was."""

    def __init__(self, database: Path, server: PostgresServer | None) -> None:
        self._database = database
        self._away = database.with_name("away.db")
        self._server = server

    def begin(self) -> None:
        if self._server is not None:
            self._server.stop()
        else:
            self._database.rename(self._away)

    def end(self) -> None:
        if self._server is not None:
            self._server.start()
        else:
            self._away.rename(self._database)


@pytest.fixture
def outage(request: pytest.FixtureRequest, backend: str, database: Path) -> Outage:
    server = request.getfixturevalue("postgres") if backend == "postgresql" else None
    return Outage(database, server)


async def test_keys_work_while_the_database_is_down_and_new_ones_soon_after(
    store: KeyStore, backend: str, peppers: Peppers, outage: Outage, wait_until: WaitUntil
) -> None:
    await store.migrate()
    key, _ = await store.create(NewKey(name="a"), peppers)
    server = KeyServer(store, lambda: peppers, poll_s=0.05)
    await server.watch.refresh()
    running = asyncio.create_task(server.watch.run())
    outage.begin()
    with pytest.raises(StoreUnavailable):
        await server.watch.refresh()
    admitted, until = 0, time.perf_counter() + 0.5
    while time.perf_counter() < until:
        assert server.admits(key)
        admitted += 1
        await asyncio.sleep(0)
    outage.end()
    back = time.perf_counter()
    late, _ = await store.create(NewKey(name="late"), peppers)
    await wait_until(lambda: server.admits(late))
    took_s = time.perf_counter() - back
    print(
        f"\n{backend} down: {admitted} of {admitted} admitted; {took_s:.2f} s after, a new key is"
    )
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
