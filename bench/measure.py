"""A suite's cases, one after another: warm up, then time."""

import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from bench.client import Client
from bench.inputs import Inputs
from bench.load import Request, closed_loop
from bench.progress import Bar
from bench.results import Row
from bench.statistics import latency
from bench.suites.suite import Case, Suite
from bench.texts import Size

_MAX_REQUESTS = 20_000  # that are prepared before a case is timed


@dataclass(frozen=True)
class Effort:
    """How long a case is warmed up and timed; `min_requests` instead of the suite's own."""

    warmup_s: float = 1.0
    timed_s: float = 5.0
    min_requests: int | None = None


@dataclass(frozen=True)
class Source:
    """Where requests go and where their inputs come from."""

    client: Client
    inputs: Inputs


async def measure(
    suite: Suite, sizes: Sequence[Size], source: Source, effort: Effort, bar: Bar
) -> AsyncIterator[Row]:
    """One row a case. Raises RequestFailed."""
    for case in suite.cases(sizes):
        bar.begin(f"{suite.name} {case}")
        yield await measure_case(suite, case, source, effort)


async def measure_case(suite: Suite, case: Case, source: Source, effort: Effort) -> Row:
    """Raises RequestFailed."""

    def prepare(count: int) -> list[Request]:
        return [suite.prepare(source.client, source.inputs, case) for _ in range(count)]

    per_s, count, warm_s = 0.0, case.clients, 0.0
    while warm_s < effort.warmup_s or per_s == 0.0:
        warm = await closed_loop(prepare(count), case.clients)
        per_s, warm_s, count = count / warm.wall_s, warm_s + warm.wall_s, 2 * count
    fewest = suite.fewest if effort.min_requests is None else effort.min_requests
    requests = min(max(math.ceil(per_s * effort.timed_s), fewest), _MAX_REQUESTS)
    load = await closed_loop(prepare(requests), case.clients)
    return Row(
        suite=suite.name,
        clients=case.clients,
        inputs=case.inputs,
        tokens=case.tokens,
        requests=requests,
        tokens_per_request=load.tokens / requests,
        wall_s=load.wall_s,
        latency=latency(load.latencies_s),
        inputs_per_s=requests * case.inputs / load.wall_s,
        tokens_per_s=load.tokens / load.wall_s,
    )
