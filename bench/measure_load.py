"""The peak of a server in closed loops, then arrivals at rates that may be shares of it."""

from collections.abc import AsyncIterator, Sequence

import numpy as np

from bench.client import RequestFailed, RequestRefused
from bench.measure import Effort, Source, measure_case
from bench.open_loop import OpenLoad, open_loop, poisson
from bench.progress import Bar
from bench.results import LoadRow, Row
from bench.statistics import tail
from bench.suites.load import MOST_ARRIVALS, LoadPlan, peak_suite
from bench.suites.suite import Case, embed_request
from bench.texts import Size

_FASTER = 1.05  # less than that with twice as many clients: it was the peak
_PEAK_S = 3.0  # each number of clients


async def find_peak(
    plan: LoadPlan, size: Size, source: Source, effort: Effort, bar: Bar
) -> list[Row]:
    """Twice as many clients until the server is no faster, or refuses. Raises RequestFailed."""
    suite = peak_suite(plan.inputs)
    rows: list[Row] = []
    effort = Effort(effort.warmup_s, min(effort.timed_s, _PEAK_S), effort.min_requests)
    for case in suite.cases([size]):
        bar.begin(f"load, peak {case}")
        try:
            rows.append(await measure_case(suite, case, source, effort))
        except RequestRefused as refusal:
            if not rows:
                raise
            bar.tell(f"load: {case.clients} clients are too many: {refusal}")
            break
        before = max((row.inputs_per_s for row in rows[:-1]), default=0.0)
        if rows[-1].inputs_per_s < _FASTER * before:
            break
    return rows


def peak_per_s(rows: Sequence[Row]) -> float:
    """Requests a second of the best."""
    return max(row.inputs_per_s / row.inputs for row in rows)


async def measure_rates(
    plan: LoadPlan, size: Size, peak: float | None, source: Source, bar: Bar
) -> AsyncIterator[LoadRow]:
    """One row a rate. `peak`: requests a second; None where no rate is a share of it.

    Raises RequestFailed where every request failed, or where there would be too many.
    """
    case = Case(clients=0, inputs=plan.inputs, tokens=size)
    for rate in plan.rates:
        per_s = rate.per_s(peak or 0.0)
        if per_s * plan.seconds > MOST_ARRIVALS:
            raise RequestFailed(f"{per_s:,.0f} requests/s for {plan.seconds:g} s are too many")
        bar.begin(f"load, {per_s:,.1f} requests/s of {plan.inputs} × {size}")
        seed = f"{plan.seed} {size} {per_s}"
        schedule = poisson(per_s, plan.seconds, seed, plan.warmup_s)
        requests = [embed_request(source.client, source.inputs, case) for _ in schedule.due_s]
        load = await open_loop(requests, schedule, plan.bounds)
        if load.failed and load.failed == load.arrivals:
            raise RequestFailed(f"every request failed: {next(iter(load.reasons))}")
        yield _row(plan, case, load, per_s, None if peak is None else per_s / peak)


def _row(plan: LoadPlan, case: Case, load: OpenLoad, per_s: float, share: float | None) -> LoadRow:
    late_s = load.late_s or [0.0]
    return LoadRow(
        inputs=case.inputs,
        tokens=case.tokens,
        rate=per_s,
        share=share,
        seconds=plan.seconds,
        arrivals=load.arrivals,
        answered=len(load.latencies_s),
        refused=load.refused,
        failed=load.failed,
        unfinished=load.unfinished,
        drain_s=plan.bounds.drain_s,
        requests_per_s=load.in_time / plan.seconds,
        inputs_per_s=load.in_time * case.inputs / plan.seconds,
        tokens_per_s=load.tokens / plan.seconds,
        latency=tail(load.latencies_s, load.unfinished),
        most_in_flight=load.most_in_flight,
        late_p99_ms=float(np.percentile(late_s, 99, method="inverted_cdf")) * 1e3,
        reasons=dict(load.reasons),
    )
