"""The ways that a job, or a request, can go: what `hop` measures side by side."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count, cycle
from urllib.parse import urlsplit

from bench.client import Client, Endpoint
from bench.fleet import bare
from bench.fleet.echo import announcement, echo, make_job
from bench.fleet.processes import GATEWAY, SERVER, WORKER, Started, florilege
from bench.texts import Texts
from checkpoint.find import DEFAULT_MODEL
from transport.memory import MemoryTransport
from transport.protocols import JobClient
from transport.redis.client import RedisJobClient
from transport.redis.connections import RedisConfig

TOKENS = 512  # a job, and a request
MEMORY, REDIS = "job, memory transport", "job, Redis transport"
BARE, PING = "job, bare protocol", "PING"
ONE_PROCESS, GATEWAY_AND_WORKER = "request, one process", "request, gateway and worker"

_TEXTS = 2  # of a request: the packaged model reads 256 tokens
_PREPARED = 256  # requests, then the first again
_FAST = ("--tokens-per-s", "1e12", "--step-s", "0")  # a device that takes no time

# Sends one and waits for its answer: when its worker had it, and when that answered.
Ask = Callable[[], Awaitable[tuple[float, float] | None]]


@dataclass(frozen=True)
class Way:
    """`pids`: of the processes that work for it."""

    name: str
    ask: Ask
    pids: dict[str, int]


@asynccontextmanager
async def all_ways(redis: Started) -> AsyncIterator[list[Way]]:
    """Everything that they need runs meanwhile. Raises StartFailed."""
    async with AsyncExitStack() as stack:
        yield [*await _job_ways(stack, redis), *await _request_ways(stack, redis)]


async def _job_ways(stack: AsyncExitStack, redis: Started) -> list[Way]:
    """Our own process is the gateway's."""
    start = stack.enter_async_context
    parts = urlsplit(redis.url)
    host, port = str(parts.hostname), int(parts.port or 0)
    echoing = await start(florilege(("-m", "bench.fleet.echo", redis.url)))
    bare_worker = await start(florilege(("-m", "bench.fleet.bare", host, str(port))))
    memory = await start(_memory())
    client = RedisJobClient(RedisConfig(redis.url))
    await client.start()
    stack.push_async_callback(client.close)
    plain = bare.Gateway(host, port)
    stack.callback(plain.close)
    here = {"gateway": os.getpid()}
    there = here | {"redis": redis.pid}
    return [
        Way(PING, _ping(plain), there),
        Way(MEMORY, _submit(memory), here),
        Way(BARE, _ask_bare(plain), there | {"worker": bare_worker.pid}),
        Way(REDIS, _submit(client), there | {"worker": echoing.pid}),
    ]


async def _request_ways(stack: AsyncExitStack, redis: Started) -> list[Way]:
    start = stack.enter_async_context
    worker = await start(florilege((*WORKER, *_FAST), redis.url))
    gateway = await start(florilege(GATEWAY, redis.url))
    server = await start(florilege((*SERVER, *_FAST)))
    to_gateway = await start(client_of(gateway))
    to_server = await start(client_of(server))
    processes = {"gateway": gateway.pid, "redis": redis.pid, "worker": worker.pid}
    return [
        Way(ONE_PROCESS, _request(to_server), {"gateway": server.pid}),
        Way(GATEWAY_AND_WORKER, _request(to_gateway), processes),
    ]


@asynccontextmanager
async def client_of(server: Started) -> AsyncIterator[Client]:
    """Of the packaged model, which simulated workers serve."""
    async with Client(Endpoint(server.url), DEFAULT_MODEL) as client:
        yield client


@asynccontextmanager
async def _memory() -> AsyncIterator[MemoryTransport]:
    memory = MemoryTransport()
    await memory.announce(announcement())
    echoing = asyncio.create_task(echo(memory))
    yield memory
    echoing.cancel()
    with suppress(asyncio.CancelledError):
        await echoing


def _submit(client: JobClient) -> Ask:
    async def ask() -> tuple[float, float]:
        timings = (await client.submit(make_job(TOKENS))).timings
        return timings["received"], timings["answered"]

    return ask


def _ask_bare(gateway: bare.Gateway) -> Ask:
    frame, numbers = make_job(TOKENS).encode(), count()

    async def ask() -> tuple[float, float]:
        return gateway.ask(f"bare-{next(numbers)}", TOKENS, frame)

    return ask


def _ping(gateway: bare.Gateway) -> Ask:
    async def ask() -> None:
        gateway.ping()

    return ask


def _request(client: Client) -> Ask:
    texts = Texts("hop")
    prepared = [[texts.of(TOKENS // _TEXTS) for _ in range(_TEXTS)] for _ in range(_PREPARED)]
    requests = cycle(prepared)

    async def ask() -> None:
        await client.embed(next(requests))

    return ask
