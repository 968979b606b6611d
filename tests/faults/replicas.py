"""Two Redis, one the other's replica, and three Sentinels that watch over them."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis_server import RedisServer, free_port

_SERVICE = "florilege"
_SENTINELS = 3
_REPLICATION = ("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0")


class Replicas:
    """`redis` is the master, as its neighbour tells."""

    def __init__(self, directory: Path) -> None:
        self.servers = [RedisServer(directory, _REPLICATION, free_port()) for _ in range(2)]
        self.sentinel_ports = [free_port() for _ in range(_SENTINELS)]
        self.redis = self.servers[0]
        self._directory = directory
        self._sentinels: list[subprocess.Popen[bytes]] = []

    @property
    def urls(self) -> list[str]:
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.sentinel_ports)
        return [f"redis+sentinel://{hosts}/{_SERVICE}/0"]

    @property
    def other(self) -> RedisServer:
        return self.servers[1 - self.servers.index(self.redis)]

    def start(self) -> None:
        for server in self.servers:
            server.start()
        self.replicate()
        for port in self.sentinel_ports:
            self._sentinels.append(self._start_sentinel(port))

    def replicate(self) -> None:
        """The other one follows the master."""
        self.other.call("REPLICAOF", "127.0.0.1", str(self.redis.port))

    def in_sync(self) -> bool:
        """The replica has all, and every Sentinel knows of it and of its colleagues.

        Where a busy machine kept the master silent for too long, the replica took its place.
        """
        self.follow()
        link = "master_link_status:up" in self.other.call("INFO", "replication")
        return link and all(self._is_ready(port) for port in self.sentinel_ports)

    def follow(self) -> bool:
        """Whether the other one is the master now; then it is `redis`."""
        if "role:master" not in self.other.call("INFO", "replication"):
            return False
        self.redis = self.other
        return True

    def close(self) -> None:
        for process in self._sentinels:
            process.kill()
            process.wait()
        for server in self.servers:
            server.kill()

    def _is_ready(self, port: int) -> bool:
        command = ["redis-cli", "-p", str(port), "SENTINEL", "MASTER", _SERVICE]
        words = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        master = dict(zip(words[::2], words[1::2], strict=False))
        return (
            master.get("flags") == "master"
            and master.get("port") == str(self.redis.port)
            and master.get("num-slaves") == "1"
            and master.get("num-other-sentinels") == str(_SENTINELS - 1)
        )

    def _start_sentinel(self, port: int) -> "subprocess.Popen[bytes]":
        config = self._directory / f"sentinel-{port}.conf"
        config.write_text(
            f"port {port}\nbind 127.0.0.1\ndir {self._directory}\nloglevel warning\n"
            f"sentinel monitor {_SERVICE} 127.0.0.1 {self.redis.port} 2\n"
            f"sentinel down-after-milliseconds {_SERVICE} 1000\n"
            f"sentinel failover-timeout {_SERVICE} 5000\n"
        )
        return subprocess.Popen(["redis-sentinel", str(config)], stdout=subprocess.DEVNULL)


@contextmanager
def running_replicas() -> Iterator[Replicas]:
    directory = Path(tempfile.mkdtemp(prefix="redis-"))
    replicas = Replicas(directory)
    try:
        replicas.start()
        yield replicas
    finally:
        replicas.close()
        shutil.rmtree(directory)
