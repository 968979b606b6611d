"""A primary, a replica and a Sentinel that watches them."""

import contextlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis_server import RedisServer, free_port, running_redis

SERVICE = "mymaster"
_READY_S = 15.0


@dataclass
class SentinelSet:
    primary: RedisServer
    replica: RedisServer
    port: int

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.port}/{SERVICE}/0"

    def primary_port(self) -> int:
        """Whom the Sentinel names."""
        with Redis(port=self.port, protocol=2) as sentinel:
            return int(sentinel.sentinel_get_master_addr_by_name(SERVICE)[1])


@contextlib.contextmanager
def running_sentinel(down_after_ms: int = 300) -> Iterator[SentinelSet]:
    """Ready to fail over: the Sentinel knows the replica, and that is in step."""
    ports = [free_port() for _ in range(3)]
    directory = Path(tempfile.mkdtemp(prefix="sentinel-"))
    quick = ("--repl-diskless-sync-delay", "0")
    with (
        running_redis(quick, ports[0]) as primary,
        running_redis((*quick, "--replicaof", f"127.0.0.1 {ports[0]}"), ports[1]) as replica,
    ):
        configuration = directory / "sentinel.conf"
        configuration.write_text(
            f"port {ports[2]}\nbind 127.0.0.1\ndir {directory}\nloglevel warning\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {ports[0]} 1\n"
            f"sentinel down-after-milliseconds {SERVICE} {down_after_ms}\n"
            f"sentinel failover-timeout {SERVICE} 3000\n"
        )
        process = subprocess.Popen(
            ["redis-server", str(configuration), "--sentinel"], stdout=subprocess.DEVNULL
        )
        try:
            _wait_until_ready(ports[2])
            yield SentinelSet(primary, replica, ports[2])
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            shutil.rmtree(directory)


def _wait_until_ready(port: int) -> None:
    until_s = time.monotonic() + _READY_S
    with Redis(port=port, protocol=2) as sentinel:
        while time.monotonic() < until_s:
            with contextlib.suppress(RedisConnectionError):
                replicas = sentinel.sentinel_slaves(SERVICE)
                if replicas and replicas[0]["master-link-status"] == "ok":
                    return
            time.sleep(0.01)
    raise RuntimeError("the Sentinel knows no replica in step")
