"""Redis behind TLS that knows its clients by their certificates."""

import asyncio
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis_server import RedisServer, free_port, running_redis
from redis_sides import QUICK, RENEWS, receive, submit
from transport_jobs import make_announcement, make_result

from transport.redis.client import RedisJobClient
from transport.redis.connections import RedisConfig
from transport.redis.consumer import RedisJobConsumer


@dataclass(frozen=True)
class Guarded:
    redis: RedisServer
    port: int
    authority: Path
    certificate: Path
    key: Path

    def config(self, **changes: Path | None) -> RedisConfig:
        files: dict[str, Path | None] = {
            "tls_ca_file": self.authority,
            "tls_cert_file": self.certificate,
            "tls_key_file": self.key,
        }
        return RedisConfig(f"rediss://127.0.0.1:{self.port}/0", block_s=0.1, **(files | changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """One authority; server and clients share a certificate of its."""
    directory = tmp_path_factory.mktemp("tls")
    authority, certificate, key = make_certificates(directory)
    port = free_port()
    options = [
        *("--tls-port", str(port), "--tls-ca-cert-file", str(authority)),
        *("--tls-cert-file", str(certificate), "--tls-key-file", str(key)),
    ]
    with running_redis(options) as redis:
        yield Guarded(redis, port, authority, certificate, key)


def make_certificates(directory: Path) -> tuple[Path, Path, Path]:
    names = ("ca.pem", "ca.key", "redis.pem", "redis.key")
    ca, ca_key, certificate, key = (directory / name for name in names)
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    new += ["-nodes", "-days", "2"]
    of_authority = ["-subj", "/CN=authority", "-keyout", str(ca_key), "-out", str(ca)]
    of_server = ["-subj", "/CN=redis", "-addext", "subjectAltName=IP:127.0.0.1"]
    of_server += ["-addext", "basicConstraints=critical,CA:FALSE"]
    of_server += ["-CA", str(ca), "-CAkey", str(ca_key), "-keyout", str(key)]
    for options in (of_authority, [*of_server, "-out", str(certificate)]):
        subprocess.run([*new, *options], check=True, capture_output=True)
    return ca, certificate, key


async def test_jobs_travel_over_tls(guarded: Guarded) -> None:
    worker = RedisJobConsumer(guarded.config(), "w1", RENEWS)
    await worker.start()
    await worker.announce(make_announcement())
    client = RedisJobClient(guarded.config(), QUICK)
    await client.start()
    task = await submit(client)
    (delivery,) = await receive(worker)
    await worker.complete(delivery, make_result(delivery.job, 0.5))
    assert (await task).rows[0, 0] == 0.5
    await client.close()
    await worker.close()


@pytest.mark.parametrize(
    "changes",
    [{"tls_ca_file": None}, {"tls_cert_file": None, "tls_key_file": None}],
    ids=["server is not trusted", "client has no certificate"],
)
async def test_nobody_is_taken_at_his_word(guarded: Guarded, changes: dict[str, None]) -> None:
    client = RedisJobClient(guarded.config(**changes), QUICK)
    starting = asyncio.create_task(client.start())
    _, pending = await asyncio.wait({starting}, timeout=0.5)
    assert pending  # it tries again: certificates come and go
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await client.close()
