"""What HTTP and Redis leave of the engine's speed: whole services beside the engine alone."""

import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from statistics import median

import numpy as np

from bench.check.ratios import Measured, Ratio
from bench.client import Client, Endpoint
from bench.fleet.cpu import OTHERS, CpuMeter
from bench.fleet.processes import (
    GATEWAY,
    REAL_WORKER,
    SERVE,
    Started,
    florilege,
    redis_server,
)
from bench.inputs import Inputs
from bench.load import closed_loop
from bench.suites.suite import Case, embed_request
from bench.texts import Texts
from checkpoint.find import DEFAULT_MODEL, find_model
from checkpoint.read import read_model
from engine.batch import Batch
from engine.engine import Engine, EngineConfig

SHORT, LARGE, REDIS = "one short text over HTTP", "256 × 80 tokens over HTTP", "Redis over memory"
_CPU = ("--device", "cpu")  # as the engine beside them
_SERVE, _WORKER = (*SERVE, *_CPU), (*REAL_WORKER, *_CPU)

_SHORT_CASE, _SHORT_TURN = Case(clients=1, inputs=1, tokens=16), 40
_LARGE_CASE, _LARGE_TURN = Case(clients=1, inputs=256, tokens=80), 1
# 8 texts of 81 tokens in the mean: three of the eight requests fill a batch of 2,048.
_MANY_CASE, _MANY_TURN = Case(clients=8, inputs=8, tokens="mixed"), 32

# Seconds that a turn's requests took, each or in all.
Turn = Callable[[], Awaitable[float]]


@dataclass(frozen=True)
class _Services:
    serve: Client
    fleet: Client  # gateway and worker over Redis
    meter: CpuMeter


async def measure_service_ratios(
    rounds: int, measured: Measured, tell: Callable[[str], None]
) -> None:
    """Raises StartFailed, RequestFailed, EngineError and CheckpointError."""
    tell("check: starting serve, Redis, gateway, worker")
    engine = _Engine()
    inputs = Inputs(Texts("check"), seed="check")
    async with _services() as services:
        turns = _turns(engine, services, inputs)
        for pair in turns.values():
            for turn in pair:
                await turn()  # layouts, connections, caches
        services.meter.start()
        for name, (without, with_) in turns.items():
            tell(f"check: {name}")
            measured.ratios.append(Ratio(name, await _in_turns(rounds, without, with_)))
        measured.others_cores = max(measured.others_cores, services.meter.cores()[OTHERS])


@asynccontextmanager
async def _services() -> AsyncIterator[_Services]:
    async with AsyncExitStack() as stack:
        start = stack.enter_async_context

        async def client_of(server: Started) -> Client:
            return await start(Client(Endpoint(server.url), DEFAULT_MODEL))

        serve = await start(florilege(_SERVE))
        redis = await start(redis_server())
        worker = await start(florilege(_WORKER, redis.url))
        gateway = await start(florilege(GATEWAY, redis.url))
        pids = [os.getpid(), serve.pid, redis.pid, worker.pid, gateway.pid]
        meter = CpuMeter({"ours": pids})
        yield _Services(await client_of(serve), await client_of(gateway), meter)


class _Engine:
    """In this process, as `serve` loads it."""

    def __init__(self) -> None:
        spec, files = read_model(find_model(DEFAULT_MODEL))
        self._engine = Engine.load(spec, files, EngineConfig("cpu"))
        self._vocabulary = spec.vocab_size
        self._ids = np.random.default_rng(0)

    def turn(self, case: Case, count: int) -> Turn:
        """The median of `count` times what a request of the case is to the engine."""
        sequences = max(1, self._engine.max_batch_tokens // int(case.tokens))

        async def take() -> float:
            took_s = []
            for _ in range(count):
                sizes = [sequences] * (case.inputs // sequences)
                sizes += [rest] if (rest := case.inputs % sequences) else []
                batches = [self._batch(size, int(case.tokens)) for size in sizes]
                began_s = time.perf_counter()
                for batch in batches:
                    _ = self._engine.step(batch).wait().rows
                took_s.append(time.perf_counter() - began_s)
            return median(took_s)

        return take

    def _batch(self, sequences: int, tokens: int) -> Batch:
        ids = self._ids.integers(0, self._vocabulary, sequences * tokens).astype(np.int32)
        return Batch("embed", ids, np.full(sequences, tokens, np.int32))


def _turns(engine: _Engine, services: _Services, inputs: Inputs) -> Mapping[str, tuple[Turn, Turn]]:
    """Without what is judged, and with it."""
    return {
        SHORT: (
            engine.turn(_SHORT_CASE, _SHORT_TURN),
            _requests(services.serve, inputs, _SHORT_CASE, _SHORT_TURN),
        ),
        LARGE: (
            engine.turn(_LARGE_CASE, _LARGE_TURN),
            _requests(services.serve, inputs, _LARGE_CASE, _LARGE_TURN),
        ),
        REDIS: (
            _throughput(services.serve, inputs, _MANY_CASE, _MANY_TURN),
            _throughput(services.fleet, inputs, _MANY_CASE, _MANY_TURN),
        ),
    }


def _requests(client: Client, inputs: Inputs, case: Case, count: int) -> Turn:
    """The median latency of requests one after another."""

    async def take() -> float:
        requests = [embed_request(client, inputs, case) for _ in range(count)]
        return median((await closed_loop(requests, case.clients)).latencies_s)

    return take


def _throughput(client: Client, inputs: Inputs, case: Case, count: int) -> Turn:
    """Seconds a token, since lengths differ from turn to turn."""

    async def take() -> float:
        requests = [embed_request(client, inputs, case) for _ in range(count)]
        load = await closed_loop(requests, case.clients)
        return load.wall_s / load.tokens

    return take


async def _in_turns(rounds: int, without: Turn, with_: Turn) -> Sequence[float]:
    order, ratios = random.Random(0), []
    for _ in range(rounds):
        took_s = {}
        for turn in order.sample((without, with_), 2):
            took_s[turn] = await turn()
        ratios.append(took_s[without] / took_s[with_])
    return ratios
