"""Four clients that each ask for a hundred vectors, again and again: the engine kept busy."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from bench.gpu.loads import Ids, Load, batch_of, random_texts
from bench.gpu.parts.part import Row, Rows, Value
from bench.gpu.roofline import bounds
from bench.gpu.setup import Setup
from bench.gpu.shapes import ModelShape
from bench.statistics import latency
from engine.engine import Engine
from engine.lazy import LazyTensor

_CLIENTS = 4
_SHARD_TOKENS = 8192  # of the jobs that a gateway makes of a request
_MOST_TEXTS = 512
_IN_FLIGHT = 2
_WARM_UP_STEPS = 8


def measure(setup: Setup, shape: ModelShape) -> Rows:
    for load in setup.fitting(setup.sizes.client_loads, shape):
        loop = _Loop(setup.engine(shape), setup.step_tokens, _clients(load, shape))
        loop.run(setup.sizes.client_s / 4, _WARM_UP_STEPS)
        yield Row("Four clients", _figures(shape, load, loop.run(setup.sizes.client_s, 1)))
        loop.drain()


@dataclass(eq=False)
class _Client:
    """Asks anew when it is answered."""

    jobs: list[list[Ids]]  # texts of each
    asked_s: float = 0.0
    left: int = 0  # jobs that are not done


@dataclass(eq=False)
class _Measured:
    wall_s: float = 0.0
    busy_s: float = 0.0  # of the device
    steps: int = 0
    replays: int = 0
    texts: int = 0
    requests_s: list[float] = field(default_factory=list)


def _clients(load: Load, shape: ModelShape) -> list[_Client]:
    clients = []
    for seed in range(_CLIENTS):
        shards = [
            random_texts(lengths, shape.vocabulary, 100 * seed + place)
            for place, lengths in enumerate(load.steps(_SHARD_TOKENS))
        ]
        clients.append(_Client(shards))
    return clients


class _Loop:
    """What a worker does: whole jobs in the order they came, two steps in flight."""

    def __init__(self, engine: Engine, max_tokens: int, clients: Sequence[_Client]) -> None:
        self._engine, self._max_tokens = engine, max_tokens
        self._waiting: deque[tuple[_Client, list[Ids]]] = deque()
        self._in_flight: deque[tuple[LazyTensor, list[tuple[_Client, list[Ids]]]]] = deque()
        for client in clients:
            self._ask(client)

    def run(self, timed_s: float, least_steps: int) -> _Measured:
        measured, started_s = _Measured(), perf_counter()
        while measured.steps < least_steps or perf_counter() - started_s < timed_s:
            while len(self._in_flight) < _IN_FLIGHT and self._waiting:
                self._launch()
            self._finish(measured)
        measured.wall_s = perf_counter() - started_s
        return measured

    def drain(self) -> None:
        """Wait for what is in flight, which counts for nobody."""
        while self._in_flight:
            self._in_flight.popleft()[0].wait()

    def _ask(self, client: _Client) -> None:
        client.asked_s, client.left = perf_counter(), len(client.jobs)
        self._waiting.extend((client, job) for job in client.jobs)

    def _launch(self) -> None:
        jobs = [self._waiting.popleft()]
        while self._waiting and self._fits([*jobs, self._waiting[0]]):
            jobs.append(self._waiting.popleft())
        batch = batch_of([text for _, job in jobs for text in job])
        self._in_flight.append((self._engine.step(batch), jobs))

    def _fits(self, jobs: Sequence[tuple[_Client, list[Ids]]]) -> bool:
        lengths = [text.size for _, job in jobs for text in job]
        return sum(lengths) <= self._max_tokens and len(lengths) <= _MOST_TEXTS

    def _finish(self, measured: _Measured) -> None:
        lazy, jobs = self._in_flight.popleft()
        output = lazy.wait()
        measured.steps += 1
        measured.replays += output.launch == "replay"
        measured.busy_s += output.timings["infer"]
        for client, job in jobs:
            measured.texts += len(job)
            client.left -= 1
            if not client.left:
                measured.requests_s.append(perf_counter() - client.asked_s)
                self._ask(client)


def _figures(shape: ModelShape, load: Load, measured: _Measured) -> dict[str, Value]:
    texts_per_s = measured.texts / measured.wall_s
    floor_s = bounds(shape, load.lengths).floor_s / load.texts
    figures: dict[str, Value] = {
        "model": shape.name,
        "a_request": load.name,
        "texts_per_s": texts_per_s,
        "tokens_per_s": texts_per_s * load.tokens / load.texts,
        "of_floor": texts_per_s * floor_s,
        "device_busy": measured.busy_s / measured.wall_s,
        "steps": measured.steps,
        "replays": measured.replays,
        "requests": len(measured.requests_s),
    }
    if measured.requests_s:
        found = latency(measured.requests_s)
        figures |= {"request_p50_ms": found.p50_ms, "request_max_ms": found.max_ms}
    return figures
