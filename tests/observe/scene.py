"""A deployment with all that can go amiss in it, and the Prometheus that saw it."""

import asyncio
import contextlib
import json
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deployment import Deployment, deployment
from observe.traffic import FAILING_ID, Callers
from prometheus_server import PrometheusServer, running_prometheus
from redis_server import RedisServer, free_port, running_redis
from server_process import COMMAND, ServerProcess

from checkpoint.find import DEFAULT_MODEL

# Half a second of work may wait; batches are soon half full, so that admission knows the speed.
GATEWAY = ("--max-queue-s", "0.5")
SPEED = ("--tokens-per-s", "20000", "--step-s", "0.02", "--max-batch-tokens", "2048")
FAULT = ("--fault", f"{FAILING_ID}=fail")
RPM = 3
ONLINE = f"florilege:q:{DEFAULT_MODEL}"
BURNING = 'ALERTS{alertname="FlorilegeAvailabilityBurnsFast", alertstate="firing"}'


@dataclass
class Scene:
    prometheus: PrometheusServer
    told: Counter[str]  # answers by status, as the callers saw them
    began_s: float  # Unix time
    ended_s: float


@contextlib.contextmanager
def played_scene() -> Iterator[Scene]:
    """Afterwards everything still runs, for whoever has more questions."""
    ports = [free_port() for _ in range(3)]
    gateways, workers = [[f"127.0.0.1:{port}" for port in some] for some in (ports[:1], ports[1:])]
    with (
        tempfile.TemporaryDirectory() as directory,
        running_redis() as redis,
        # First, as it takes 5 s until it looks at its targets.
        running_prometheus({"florilege-gateway": gateways, "florilege-worker": workers}) as seen,
        deployment(redis.url, Path(directory)) as deployed,
    ):
        for port in ports[1:]:
            deployed.simulated_worker("--admin-port", str(port), *SPEED, *FAULT)
        keys = [_key(Path(directory)), _key(Path(directory), "--rpm", str(RPM))]
        gateway = deployed.gateway("--admin-port", str(ports[0]), *GATEWAY)
        deployed.settle()
        gateway.wait_for(lambda: gateway.metric("florilege_live_workers") == 2)
        began_s = time.time()
        seen.wait_for("sum(up) == 3")
        told = asyncio.run(_play(deployed, redis, seen, keys))
        yield Scene(seen, told, began_s, time.time())


async def _play(
    deployed: Deployment, redis: RedisServer, prometheus: PrometheusServer, keys: list[str]
) -> Counter[str]:
    *workers, gateway = deployed.processes
    callers = Callers(gateway.url, keys[0])
    try:
        with _paused(workers):
            await callers.impatiently()
        assert set(await callers.at_once(2, 16)) == {200}
        await asyncio.to_thread(
            gateway.wait_for, lambda: gateway.metric("florilege_capacity_tokens_per_second") > 0
        )
        async with callers.busy(clients=4):
            await callers.wrongly(keys[0][:-1])
            await callers.again()
            limited = await callers.beyond_its_limit(keys[1], 3 * RPM)
            assert limited.count(429) >= RPM, limited
            assert 503 in await callers.at_once(40, 16)
            await _die_with_a_job(workers[0], redis)
            await asyncio.to_thread(prometheus.wait_for, "florilege_redelivered_total > 0")
    finally:
        await callers.close()
    answered = sum(callers.told.values())
    for seen in (
        f"sum(florilege_requests_total) == {answered}",  # the scrape after the last answer
        BURNING,  # and the rules after that
    ):
        await asyncio.to_thread(prometheus.wait_for, seen)
    return callers.told


@contextlib.contextmanager
def _paused(workers: list[ServerProcess]) -> Iterator[None]:
    """For less than their leases last."""
    for worker in workers:
        worker.process.send_signal(signal.SIGSTOP)
    yield
    for worker in workers:
        worker.process.send_signal(signal.SIGCONT)


async def _die_with_a_job(worker: ServerProcess, redis: RedisServer) -> None:
    """Stopped while it waits for requests, it is given one that nobody begins."""
    async with asyncio.timeout(20):
        while not await _holds_when_stopped(worker, redis):
            worker.process.send_signal(signal.SIGCONT)
            await asyncio.sleep(0.1)
    worker.process.kill()


async def _holds_when_stopped(worker: ServerProcess, redis: RedisServer) -> bool:
    """Not where it had just not asked for a job, or was given one of the other lane."""
    worker.process.send_signal(signal.SIGSTOP)
    held = ("XPENDING", ONLINE, "w", "IDLE", "300", "-", "+", "1")  # no step is that long
    for _ in range(20):
        if await asyncio.to_thread(redis.call, *held):
            return True
        await asyncio.sleep(0.05)
    return False


def _key(directory: Path, *limits: str) -> str:
    create = ["keys", "create", "--name", "observe", "--data-dir", str(directory), "--json"]
    output = subprocess.run([*COMMAND, *create, *limits], check=True, capture_output=True).stdout
    return str(json.loads(output)["key"])
