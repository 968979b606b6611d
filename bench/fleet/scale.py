"""Gateway processes, one as a rule, and more and more workers on simulated devices."""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from urllib.parse import urlsplit

from bench.client import Client, Endpoint
from bench.fleet.cpu import CpuMeter
from bench.fleet.processes import GATEWAY, SERVER, WORKER, Started, florilege, redis_server
from bench.fleet.results import ScaleHop, ScaleResults, ScaleRow
from bench.inputs import Inputs
from bench.load import Load, Request, closed_loop
from bench.machine import describe_machine
from bench.statistics import latency
from bench.suites.suite import Case, embed_request
from bench.texts import Texts
from checkpoint.find import DEFAULT_MODEL

_BATCH_TOKENS = 2_048  # small, so that a worker takes little from the others at a time
_QUEUE_TOKENS = 4 * _BATCH_TOKENS  # sent and unanswered, for each worker: none has to wait for work
_CLIENTS = (8, 128)  # at least, and at most
_HOP_CASE = Case(clients=1, inputs=2, tokens=256)
_HOP_TURN = 10  # requests to each in turn


@dataclass(frozen=True)
class ScaleEffort:
    """A worker runs some hundred requests of 512 tokens a second: one gateway can feed several."""

    workers: tuple[int, ...] = (1, 2, 4, 8)
    shapes: tuple[tuple[int, int], ...] = ((1, 16), (2, 256), (32, 128))  # texts, tokens of each
    device_tokens_per_s: float = 50_000.0
    seconds: float = 8.0  # each row
    warmup_s: float = 2.0
    hop_rounds: int = 40
    gateways: int = 1  # processes, on one port


async def measure_scale(effort: ScaleEffort, tell: Callable[[str], None]) -> ScaleResults:
    """Raises StartFailed and RequestFailed."""
    machine, date = describe_machine(), datetime.now(UTC).isoformat(timespec="seconds")
    speed = effort.device_tokens_per_s
    results = ScaleResults(date, machine, speed, effort.seconds, gateways=effort.gateways)
    tell("scale: starting Redis, gateways, server, worker")
    async with AsyncExitStack() as stack:
        fleet = await _start_fleet(stack, effort)
        for workers in effort.workers:
            await fleet.grow(workers)
            results.hops.append(await _measure_hop(fleet, effort))
            async for row in _measure_rows(fleet, effort):
                name = f"{workers} workers, {row.inputs} × {row.tokens} tokens"
                tell(f"scale: {name}: {row.requests_per_s:,.0f} requests/s")
                results.rows.append(row)
    return results


@dataclass(eq=False)
class _Fleet:
    """All at one Redis, but for `one_process`, which needs none."""

    stack: AsyncExitStack
    device: Sequence[str]  # flags
    redis: Started
    workers: list[Started] = field(default_factory=list)
    gateways: list[Started] = field(default_factory=list)  # on one port
    client: Client = field(init=False)
    one_process: Client = field(init=False)
    texts: Inputs = field(default_factory=lambda: Inputs(Texts("scale")))

    async def grow(self, count: int) -> None:
        while len(self.workers) < count:
            starting = florilege((*WORKER, *self.device), self.redis.url)
            self.workers.append(await self.stack.enter_async_context(starting))

    def meter(self) -> CpuMeter:
        return CpuMeter(
            {
                "gateway": [gateway.pid for gateway in self.gateways],
                "redis": [self.redis.pid],
                "workers": [worker.pid for worker in self.workers],
                "load": [os.getpid()],
            }
        )

    def requests(self, client: Client, case: Case, count: int) -> list[Request]:
        return [embed_request(client, self.texts, case) for _ in range(count)]


async def _start_fleet(stack: AsyncExitStack, effort: ScaleEffort) -> _Fleet:
    start = stack.enter_async_context
    speed = ("--tokens-per-s", str(effort.device_tokens_per_s))
    device = (*speed, "--max-batch-tokens", str(_BATCH_TOKENS))
    fleet = _Fleet(stack, device, await start(redis_server()))
    await fleet.grow(1)  # first, so that the gateway knows the model when it starts
    port = "0"
    for _ in range(effort.gateways):
        command = (*GATEWAY, "--port", port, "--reuse-port")
        fleet.gateways.append(await start(florilege(command, fleet.redis.url)))
        port = str(urlsplit(fleet.gateways[0].url).port)
    fleet.client = await start(_client_of(fleet.gateways[0]))
    fleet.one_process = await start(_client_of(await start(florilege((*SERVER, *device)))))
    return fleet


def _client_of(server: Started) -> Client:
    return Client(Endpoint(server.url), DEFAULT_MODEL)


async def _measure_hop(fleet: _Fleet, effort: ScaleEffort) -> ScaleHop:
    """In turns, after one that warms up."""
    over_memory: list[float] = []
    over_redis: list[float] = []
    for number in range(1 + effort.hop_rounds):
        for client, samples in ((fleet.one_process, over_memory), (fleet.client, over_redis)):
            load = await closed_loop(fleet.requests(client, _HOP_CASE, _HOP_TURN), clients=1)
            samples.extend(load.latencies_s if number else ())
    workers, count = len(fleet.workers), len(over_redis)
    return ScaleHop(workers, count, latency(over_memory), latency(over_redis))


async def _measure_rows(fleet: _Fleet, effort: ScaleEffort) -> AsyncIterator[ScaleRow]:
    for inputs, tokens in effort.shapes:
        least, most = _CLIENTS
        clients = ceil(len(fleet.workers) * _QUEUE_TOKENS / (inputs * tokens))
        case = Case(min(max(clients, least), most), inputs, tokens)
        count, warm_s, per_s = 2 * case.clients, 0.0, 0.0
        while warm_s < effort.warmup_s or not per_s:
            warm = await closed_loop(fleet.requests(fleet.client, case, count), case.clients)
            per_s, warm_s, count = count / warm.wall_s, warm_s + warm.wall_s, 2 * count
        requests = fleet.requests(
            fleet.client, case, max(ceil(per_s * effort.seconds), 2 * case.clients)
        )
        meter = fleet.meter()
        load = await closed_loop(requests, case.clients)
        yield _row(fleet, effort, case, load, meter.cores())


def _row(
    fleet: _Fleet, effort: ScaleEffort, case: Case, load: Load, cores: dict[str, float]
) -> ScaleRow:
    workers, requests = len(fleet.workers), len(load.latencies_s)
    tokens_per_s = load.tokens / load.wall_s
    return ScaleRow(
        workers=workers,
        inputs=case.inputs,
        tokens=int(case.tokens),
        clients=case.clients,
        requests=requests,
        latency=latency(load.latencies_s),
        requests_per_s=requests / load.wall_s,
        tokens_per_s=tokens_per_s,
        device_share=tokens_per_s / (workers * effort.device_tokens_per_s),
        cores=cores,
    )
