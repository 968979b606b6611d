"""Where Redis is, who may enter, and which Redis will do."""

import asyncio
import contextlib
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from faults.replicas import Replicas, running_replicas
from redis_server import RedisServer, free_port, running_redis
from redis_sides import QUICK, RENEWS, Events, answering, expected, submit, where
from transport_jobs import make_announcement, make_job

from transport.redis.client import RedisJobClient
from transport.redis.clock import RedisClock
from transport.redis.connections import Connections, RedisConfig
from transport.redis.consumer import RedisJobConsumer
from transport.redis.errors import Unreachable, UnsupportedRedis
from transport.redis.events import ignore
from transport.redis.scripts import OLDEST

WaitUntil = Callable[..., Awaitable[None]]


async def ask(config: RedisConfig, *command: str) -> Any:
    connections = Connections(config, ignore)
    try:
        return await connections.commands.execute(*command)
    finally:
        await connections.close()


@pytest.fixture(scope="module")
def tcp() -> Iterator[RedisServer]:
    with running_redis(port=free_port()) as server:
        server.call("ACL", "SETUSER", "someone", "on", ">inside", "~*", "+@all")
        server.call("CONFIG", "SET", "requirepass", "outside")
        yield server


async def test_blocking_reads_end_before_their_line_gives_up() -> None:
    config = RedisConfig("redis://localhost")
    connections = Connections(config, ignore)
    assert config.block_s < connections.blocking().timeouts.answer_s
    assert connections.commands.timeouts.answer_s == config.command_timeout_s


async def test_answers_are_timed_by_command_and_script_but_for_reads_that_wait(
    redis: RedisServer,
) -> None:
    answers: list[tuple[str, float]] = []
    connections = Connections(where(redis), ignore, lambda *answer: answers.append(answer))
    line = connections.commands
    await line.execute("PING")
    await OLDEST.run(line, ("q",))
    await connections.blocking().execute("XREAD", "BLOCK", 20, "STREAMS", "q", "0")
    await line.execute_all([("GET", "a"), ("TIME",)])
    await connections.close()
    names = [op for op, _ in answers]
    assert names[0] == "ping"
    assert set(names[1:-2]) == {"oldest"}  # twice where the server did not know the script
    assert names[-2:] == ["get", "time"]
    assert all(0 < seconds < 10 for _, seconds in answers)


async def test_unix_socket_and_database_of_the_url(redis: RedisServer) -> None:
    config = RedisConfig(f"unix://{redis.socket}?db=3")
    await ask(config, "SET", "a", "in three")
    assert await ask(config, "GET", "a") == b"in three"
    assert await ask(RedisConfig(f"unix://{redis.socket}"), "GET", "a") is None


@pytest.mark.parametrize(
    ("userinfo", "username", "password", "who"),
    [
        (":outside@", None, None, b"default"),
        ("", None, "outside", b"default"),
        ("someone:inside@", None, None, b"someone"),
        ("someone:inside@", "default", "outside", b"default"),  # what is given goes first
    ],
)
async def test_user_and_password_of_url_or_settings(
    tcp: RedisServer, userinfo: str, username: str | None, password: str | None, who: bytes
) -> None:
    config = RedisConfig(
        f"redis://{userinfo}127.0.0.1:{tcp.port}/0", username=username, password=password
    )
    assert await ask(config, "ACL", "WHOAMI") == who


async def test_wrong_password_ends_the_start(tcp: RedisServer) -> None:
    config = RedisConfig(f"redis://127.0.0.1:{tcp.port}", password="wrong")
    with pytest.raises(UnsupportedRedis, match="password"):
        await RedisJobClient(config).start()
    with pytest.raises(UnsupportedRedis, match="password"):
        await RedisJobConsumer(config, "w").start()


def test_secrets_are_not_shown() -> None:
    config = RedisConfig("redis://:secret1@localhost", password="secret2", sentinel_password="s3")
    assert not [secret for secret in ("secret1", "secret2", "s3") if secret in repr(config)]


@pytest.mark.parametrize(
    "url",
    ["http://localhost", "localhost:6379", "redis+sentinel://localhost:26379", "redis://h:port"],
)
def test_url_of_nothing_is_refused(url: str) -> None:
    with pytest.raises(UnsupportedRedis):
        Connections(RedisConfig(url), ignore)


async def test_cluster_is_refused_and_told_why(tmp_path: Path) -> None:
    options = [
        *("--cluster-enabled", "yes", "--cluster-port", str(free_port())),
        *("--cluster-config-file", str(tmp_path / "nodes")),
    ]
    with running_redis(options, free_port()) as server:
        with pytest.raises(UnsupportedRedis, match=r"Cluster.*Sentinel"):
            await RedisJobClient(RedisConfig(server.url)).start()
        with pytest.raises(UnsupportedRedis, match="Cluster"):
            await RedisJobConsumer(RedisConfig(server.url), "w").start()


async def test_redis_that_is_too_old_is_refused(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transport.redis.line._LEAST_VERSION", (99, 1))
    with pytest.raises(UnsupportedRedis, match=r"too old: 99\.1 or later"):
        await RedisJobClient(RedisConfig(redis.url)).start()


async def test_closed_port_is_told_at_once() -> None:
    async with asyncio.timeout(1):
        with pytest.raises(Unreachable):
            await ask(RedisConfig(f"redis://127.0.0.1:{free_port()}"), "PING")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key, and a certificate for 127.0.0.1 that vouches for itself."""
    directory = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", "key.pem", "-out", "certificate.pem", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        cwd=directory,
        check=True,
        capture_output=True,
    )
    return directory


async def test_tls_with_an_authority_and_a_certificate_of_ones_own(certificates: Path) -> None:
    certificate, key = certificates / "certificate.pem", certificates / "key.pem"
    port = free_port()
    options = [
        *("--tls-port", str(port), "--tls-cert-file", str(certificate)),
        *("--tls-key-file", str(key), "--tls-ca-cert-file", str(certificate)),
    ]
    with running_redis(options):
        url = f"rediss://127.0.0.1:{port}/0"
        config = RedisConfig(
            url, tls_ca_file=certificate, tls_cert_file=certificate, tls_key_file=key
        )
        assert await ask(config, "PING") == b"PONG"
        with pytest.raises(Unreachable):  # nobody vouches for it
            await ask(RedisConfig(url), "PING")
        with pytest.raises(Unreachable):  # it asks who we are
            await ask(RedisConfig(url, tls_ca_file=certificate), "PING")


def in_sync(replicas: Replicas) -> bool:
    """Not yet where a Sentinel does not even listen."""
    with contextlib.suppress(subprocess.CalledProcessError):
        return replicas.in_sync()
    return False


async def test_failover_by_sentinel_loses_no_job(wait_until: WaitUntil) -> None:
    events = Events()
    with running_replicas() as replicas:
        await wait_until(partial(in_sync, replicas))
        config = RedisConfig(replicas.urls[0], block_s=0.1)
        consumer = RedisJobConsumer(config, "w1", RENEWS)
        client = RedisJobClient(config, QUICK, events)
        await consumer.start()
        await consumer.announce(make_announcement())
        await client.start()
        waiting = [await submit(client) for _ in range(3)]
        replicas.redis.kill()
        later = make_job()
        task = asyncio.create_task(client.submit(later))
        async with answering(consumer), asyncio.timeout(20):
            await asyncio.gather(*waiting)
            assert (await task).rows[0, 0] == expected(later)
        assert replicas.follow()
        assert events.seen["resubmitted"] >= 3
        await client.close()
        await consumer.close()


async def test_no_sentinel_is_lost_when_all_lines_ask_at_once(wait_until: WaitUntil) -> None:
    with running_replicas() as replicas:
        await wait_until(partial(in_sync, replicas))
        connections = Connections(RedisConfig(replicas.urls[0]), ignore)
        sentinel = connections._sentinel
        assert sentinel is not None
        kept = set(sentinel.sentinels)
        kill = sentinel.sentinels[0]  # the second one answers all
        kill.connection_pool.connection_kwargs["port"] = free_port()
        lines = [connections.blocking() for _ in range(8)]
        await asyncio.gather(*[line.connect() for line in lines])
        assert set(sentinel.sentinels) == kept
        await connections.close()


class TellsTime:
    """A Redis whose clock is an hour ahead, and which answers late."""

    def __init__(self, late_s: list[float]) -> None:
        self._late_s = iter(late_s)

    async def execute(self, *arguments: str) -> tuple[bytes, bytes]:
        assert arguments == ("TIME",)
        now_s = asyncio.get_running_loop().time() + 3_600
        await asyncio.sleep(next(self._late_s))
        return str(int(now_s)).encode(), str(int(now_s % 1 * 1e6)).encode()


async def test_time_is_that_of_redis_as_well_as_the_quickest_answer_told_it() -> None:
    clock = RedisClock()
    line: Any = TellsTime([0.05, 0.0, 0.05])
    for _ in range(3):
        await clock.calibrate(line)
    loop = asyncio.get_running_loop()
    assert clock.now_ms() == pytest.approx((loop.time() + 3_600) * 1000, abs=5)
    assert clock.loop_s(clock.now_ms()) == pytest.approx(loop.time(), abs=0.001)
