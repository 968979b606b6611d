"""Two gateways and two workers at one Redis, and a supervisor that starts anew what ended."""

import asyncio
import contextlib
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Literal, Protocol

import httpx
from deployment import Deployment, deployment
from faults.proxy import Proxy
from faults.replicas import running_replicas
from redis_server import RedisServer, free_port, running_redis
from server_process import ServerProcess

from checkpoint.find import DEFAULT_MODEL
from transport.redis.keys import GROUP, model_keys

QUEUES, TOKENS = model_keys(DEFAULT_MODEL).queues, model_keys(DEFAULT_MODEL).tokens
POISON, POISON_ID = "poison", 9947  # in MiniLM's vocabulary; no other text has it
_DEVICE = ("--tokens-per-s", "100000", "--step-s", "0.03", "--fault", f"{POISON_ID}=die")
_BATCH = ("--max-batch-tokens", "512")  # larger requests are split
Role = Literal["gateway", "worker"]
Counts = Counter[str]


class Store(Protocol):
    """Where a fleet's Redis is."""

    @property
    def redis(self) -> RedisServer:
        """The one that is served from now."""
        ...

    @property
    def urls(self) -> list[str]:
        """For the processes of one role, in turn."""
        ...


class Fleet:
    """`rotation` is what a balancer has: the gateways that serve."""

    def __init__(self, store: Store, deployed: Deployment, proxy: Proxy | None = None) -> None:
        self.store = store
        self.proxy = proxy
        self.gateways: list[ServerProcess] = []
        self.workers: list[ServerProcess] = []
        self.rotation: list[str] = []
        self.supervised = True
        self._deployed = deployed
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def redis(self) -> RedisServer:
        return self.store.redis

    async def start(self) -> None:
        started = [
            (role, self.begin(role, place)) for role in ("gateway", "worker") for place in range(2)
        ]
        for role, process in started:
            await self.admit(role, process)
        await self.until_all_serve()
        self.supervise()

    def supervise(self) -> None:
        """From now, what ends is started anew."""
        self._supervisor = asyncio.create_task(self._supervise())

    async def close(self) -> None:
        """Raises what the supervisor failed with."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor

    def begin(self, role: Role, place: int) -> ServerProcess:
        """A new process, which may not serve yet."""
        urls = self.store.urls
        self._deployed.environ["FLORILEGE_REDIS_URL"] = urls[place % len(urls)]
        if role == "gateway":
            return self._deployed.gateway()
        return self._deployed.simulated_worker(*_DEVICE, *_BATCH)

    async def admit(self, role: Role, process: ServerProcess, place: int | None = None) -> None:
        """Once it serves, it belongs to the fleet, at the place of one that left."""
        await asyncio.to_thread(process.wait_until_serving)
        if process.process.poll() is not None:
            raise RuntimeError("".join(process.stderr))
        ours = self.gateways if role == "gateway" else self.workers
        if place is None:
            ours.append(process)
        else:
            ours[place] = process
        if role == "gateway":
            self.rotation[:] = [gateway.url for gateway in self.gateways]

    async def until_all_serve(self) -> None:
        """Every process lives, and every gateway knows every worker.

        Raises TimeoutError, or what the supervisor failed with; it goes on.
        """

        async def do() -> bool:
            if self._supervisor is not None and self._supervisor.done():
                ended = self._supervisor
                self.supervise()
                ended.result()
            if any(process.process.poll() is not None for process in self.processes):
                return False
            counts = [await scrape(gateway) for gateway in self.gateways]
            known = {count["florilege_live_workers"] for count in counts}
            return known == {len(self.workers)}

        await until(do, 40)

    @property
    def processes(self) -> list[ServerProcess]:
        return [*self.gateways, *self.workers]

    async def counts(self) -> dict[str, Counts]:
        """By process."""
        return {process.admin_url: await scrape(process) for process in self.processes}

    # --- what is in Redis ---

    def waiting(self) -> int:
        """Jobs that wait or run."""
        with self.redis.client() as client:
            return sum(int(client.xlen(queue)) for queue in QUEUES)

    def held(self, worker: ServerProcess) -> list[int]:
        """For each job in this worker's hands, how often it was delivered."""
        name = worker_name(worker)
        with self.redis.client() as client:
            return [
                row["times_delivered"]
                for queue in QUEUES
                for row in client.xpending_range(queue, GROUP, "-", "+", 1000, name)
            ]

    def oldest_held_s(self, worker: ServerProcess) -> float:
        """Since the submission of the oldest job in this worker's hands; 0 where it has none."""
        name = worker_name(worker)
        with self.redis.client() as client:
            seconds, micros = client.time()
            oldest = [
                int(row["message_id"].split(b"-")[0])
                for queue in QUEUES
                for row in client.xpending_range(queue, GROUP, "-", "+", 1, name)
            ]
        return max([seconds + micros / 1e6 - ms / 1000 for ms in oldest], default=0.0)

    def redis_counts(self) -> Counts:
        """Calls of commands, and errors, since the server began or was asked to forget."""
        with self.redis.client() as client:
            counts = Counter(
                {f"redis_{n}": s["calls"] for n, s in client.info("commandstats").items()}
            )
            for name, stats in client.info("errorstats").items():
                counts[f"redis_{name}"] = stats["count"]
            return counts

    async def _supervise(self) -> None:
        """What ended is started anew, at once, as orchestrators do."""
        while True:
            await asyncio.sleep(0.02)
            for role, ours in (("gateway", self.gateways), ("worker", self.workers)):
                for place, process in enumerate(ours):
                    if self.supervised and process.process.poll() is not None:
                        new = self.begin(role, place)
                        await self.admit(role, new, place)


def worker_name(worker: ServerProcess) -> str:
    """Of its consumer."""
    line = next(line for line in worker.log if line["event"] == "serving")
    return str(line["worker"])


async def scrape(process: ServerProcess) -> Counts:
    """Every metric, summed over its labels; nothing of a process that ended."""
    try:
        async with httpx.AsyncClient(timeout=5) as client:
            text = (await client.get(f"{process.admin_url}/metrics")).text
    except httpx.HTTPError:
        return Counter()
    counts: Counts = Counter()
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            counts[name.partition("{")[0]] += float(value)
    return counts


async def until(done: Callable[[], object], limit_s: float) -> None:
    """Poll; `done` may be a coroutine function."""
    async with asyncio.timeout(limit_s):
        while True:
            answer = done()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return
            await asyncio.sleep(0.005)


class OneRedis:
    """Half of each role reaches it straight, half through the proxy."""

    def __init__(self, redis: RedisServer, proxy: Proxy) -> None:
        self.redis = redis
        self.urls = [f"unix://{redis.socket}?db=0", proxy.url]


@contextlib.asynccontextmanager
async def running_fleet() -> AsyncIterator[Fleet]:
    port = free_port()
    with running_redis(port=port) as redis:
        proxy = Proxy(port)
        await proxy.start()
        try:
            async with fleet_at(OneRedis(redis, proxy), proxy) as fleet:
                yield fleet
        finally:
            await proxy.close()


@contextlib.asynccontextmanager
async def replicated_fleet() -> AsyncIterator[Fleet]:
    """Its store is `Replicas`."""
    with running_replicas() as replicas:
        await until(replicas.in_sync, 30)
        async with fleet_at(replicas) as fleet:
            yield fleet


@contextlib.asynccontextmanager
async def fleet_at(store: Store, proxy: Proxy | None = None) -> AsyncIterator[Fleet]:
    with (
        tempfile.TemporaryDirectory(prefix="fleet-") as directory,
        deployment(store.urls[0], Path(directory)) as deployed,
    ):
        fleet = Fleet(store, deployed, proxy)
        try:
            await fleet.start()
            yield fleet
        finally:
            await fleet.close()
