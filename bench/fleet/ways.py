"""The ways that a job, or a request, can go: what `hop` measures side by side."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count, cycle
from urllib.parse import urlsplit

import aiohttp
import orjson

from bench.client import RequestFailed
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

# Sends one and waits for its answer: seconds of each stage.
Ask = Callable[[], Awaitable[Mapping[str, float]]]


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
    to_gateway = await start(_session(gateway))
    to_server = await start(_session(server))
    processes = {"gateway": gateway.pid, "redis": redis.pid, "worker": worker.pid}
    return [
        Way(ONE_PROCESS, _request(to_server), {"gateway": server.pid}),
        Way(GATEWAY_AND_WORKER, _request(to_gateway), processes),
    ]


def _session(server: Started) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(server.url, headers={"content-type": "application/json"})


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
    async def ask() -> Mapping[str, float]:
        sent_s = time.perf_counter()
        timings = (await client.submit(make_job(TOKENS))).timings
        return _stages(sent_s, timings["received"], timings["answered"])

    return ask


def _ask_bare(gateway: bare.Gateway) -> Ask:
    frame, numbers = make_job(TOKENS).encode(), count()

    async def ask() -> Mapping[str, float]:
        sent_s = time.perf_counter()
        return _stages(sent_s, *gateway.ask(f"bare-{next(numbers)}", TOKENS, frame))

    return ask


def _stages(sent_s: float, received_s: float, answered_s: float) -> Mapping[str, float]:
    """One clock for all processes of the machine."""
    returned_s = time.perf_counter()
    return {
        "to the worker": received_s - sent_s,
        "in the worker": answered_s - received_s,
        "back": returned_s - answered_s,
    }


def _ping(gateway: bare.Gateway) -> Ask:
    async def ask() -> Mapping[str, float]:
        gateway.ping()
        return {}

    return ask


def _request(session: aiohttp.ClientSession) -> Ask:
    """Its stages are those that the server tells."""
    texts = Texts("hop")
    bodies = cycle(
        orjson.dumps(
            {
                "model": DEFAULT_MODEL,
                "input": [texts.of(TOKENS // _TEXTS) for _ in range(_TEXTS)],
                "encoding_format": "base64",
            }
        )
        for _ in range(_PREPARED)
    )

    async def ask() -> Mapping[str, float]:
        async with session.post("/v1/embeddings", data=next(bodies)) as response:
            answer = await response.read()
            if response.status != 200:
                raise RequestFailed(f"{response.status} {answer[:300].decode(errors='replace')}")
        return _told(response.headers["server-timing"])

    return ask


def _told(header: str) -> Mapping[str, float]:
    """What the job took stands together: in one process and over Redis it is cut differently."""
    pairs = (stage.strip().split(";dur=") for stage in header.split(","))
    took_s = {name: float(duration_ms) / 1000 for name, duration_ms in pairs}
    job_s = took_s["queue"] + took_s["infer"] + took_s["reply"]
    return {"tokenize": took_s["tokenize"], "job": job_s, "encode": took_s["encode"]}
