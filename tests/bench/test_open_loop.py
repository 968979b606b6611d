"""The open loop: requests leave by the schedule, and their time counts from it."""

import asyncio
import math
import time
from collections.abc import Awaitable
from statistics import mean, pvariance

import pytest

from bench.client import RequestFailed, RequestRefused
from bench.load import Request
from bench.open_loop import Bounds, OpenLoad, Schedule, open_loop, poisson
from bench.statistics import tail

UNBOUNDED = Bounds(in_flight=1_000, drain_s=20.0)


def schedule(*due_s: float, warmup_s: float = 0.0) -> Schedule:
    return Schedule(due_s, warmup_s, seconds=max(due_s) - warmup_s)


async def run(send: Request, due: Schedule, bounds: Bounds = UNBOUNDED) -> OpenLoad:
    return await open_loop([send] * len(due.due_s), due, bounds)


async def answer() -> int:
    return 10


def never() -> Awaitable[int]:
    return asyncio.get_running_loop().create_future()


def failing(error: Exception) -> Request:
    async def send() -> int:
        raise error

    return send


@pytest.mark.parametrize("rate", [3.0, 200.0])
def test_as_many_arrive_as_the_rate_says(rate: float) -> None:
    seconds = 4_000 / rate
    arrivals = len(poisson(rate, seconds, "a").due_s)
    assert abs(arrivals - 4_000) < 4 * math.sqrt(4_000)


def test_arrivals_are_poisson() -> None:
    due_s = poisson(100.0, 200.0, "poisson").due_s
    gaps_s = [after - before for before, after in zip((0.0, *due_s), due_s, strict=False)]
    assert mean(gaps_s) == pytest.approx(0.01, rel=0.03)
    # An exponential's deviation is its mean, and a share of 1/e lies above it.
    assert math.sqrt(pvariance(gaps_s)) == pytest.approx(0.01, rel=0.03)
    assert sum(gap > 0.01 for gap in gaps_s) / len(gaps_s) == pytest.approx(1 / math.e, abs=0.015)
    # Counts of a second vary as much as their mean; evenly spaced ones would not vary at all.
    counts = [sum(second <= at < second + 1 for at in due_s) for second in range(200)]
    assert pvariance(counts) == pytest.approx(100, rel=0.35)


def test_same_seed_gives_the_same_schedule() -> None:
    assert poisson(50.0, 2.0, "a") == poisson(50.0, 2.0, "a")
    assert poisson(50.0, 2.0, "a") != poisson(50.0, 2.0, "b")


def test_schedule_reaches_over_the_warm_up_too() -> None:
    due_s = poisson(100.0, 1.0, "a", warmup_s=2.0).due_s
    assert 2.9 < due_s[-1] < 3.0


async def test_latency_counts_from_the_scheduled_moment_while_the_server_stalls() -> None:
    """It answers one at a time, and the first takes 0.3 s: whoever comes meanwhile waits too."""
    one_at_a_time, stalls_s = asyncio.Lock(), iter((0.3, 0.0, 0.0, 0.0))

    async def send() -> int:
        async with one_at_a_time:
            await asyncio.sleep(next(stalls_s))
        return 1

    load = await run(send, schedule(0.0, 0.1, 0.2, 0.25))
    for latency_s, least_s in zip(load.latencies_s, (0.3, 0.2, 0.1, 0.05), strict=True):
        assert least_s - 0.002 <= latency_s < least_s + 0.2


async def test_who_waits_at_the_client_is_charged_to_the_server() -> None:
    """As in the last test, but the client may have one in flight."""
    stalls_s = iter((0.3, 0.0, 0.0))

    async def send() -> int:
        await asyncio.sleep(next(stalls_s))
        return 1

    load = await run(send, schedule(0.0, 0.1, 0.2), Bounds(in_flight=1, drain_s=20.0))
    assert load.most_in_flight == 1
    assert load.latencies_s[1] >= 0.2 - 0.002
    assert load.latencies_s[2] >= 0.1 - 0.002


async def test_no_arrival_waits_for_an_answer() -> None:
    arrived: list[float] = []
    everyone = asyncio.Event()
    due = schedule(*(0.005 * number for number in range(20)))

    async def send() -> int:
        arrived.append(time.perf_counter())
        if len(arrived) == 20:
            everyone.set()
        await everyone.wait()
        return 1

    load = await run(send, due)
    assert load.most_in_flight == 20
    assert len(load.latencies_s) == 20
    assert arrived[-1] - arrived[0] >= 0.095 - 0.02


@pytest.mark.parametrize("in_flight", [1, 3])
async def test_no_more_are_in_flight_than_may_be(in_flight: int) -> None:
    running = most = 0

    async def send() -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        return 1

    load = await run(send, schedule(*(0.001 * n for n in range(12))), Bounds(in_flight, 20.0))
    assert most == load.most_in_flight == in_flight
    assert len(load.latencies_s) == 12


async def test_refused_and_failed_requests_are_no_latencies() -> None:
    due = schedule(*(0.002 * number for number in range(6)))
    requests: list[Request] = [
        *(answer, failing(RequestRefused("503 overloaded")), answer),
        *(failing(RequestFailed("500 broken")), failing(RequestRefused("429 slow")), answer),
    ]
    load = await open_loop(requests, due, UNBOUNDED)
    assert (len(load.latencies_s), load.refused, load.failed, load.unfinished) == (3, 2, 1, 0)
    assert load.arrivals == 6
    assert load.reasons == {"503 overloaded": 1, "500 broken": 1, "429 slow": 1}


async def test_tail_that_never_ends_is_told() -> None:
    requests: list[Request] = [answer, never, answer, never]
    load = await open_loop(requests, schedule(0.0, 0.001, 0.002, 0.003), Bounds(100, drain_s=0.05))
    assert (len(load.latencies_s), load.unfinished) == (2, 2)
    found = tail(load.latencies_s, load.unfinished)
    assert found.p50_ms is not None
    assert found.p90_ms is found.p99_ms is found.max_ms is None


async def test_who_never_left_the_client_is_unfinished_too() -> None:
    load = await run(never, schedule(0.0, 0.001, 0.002), Bounds(in_flight=1, drain_s=0.05))
    assert (load.unfinished, load.arrivals) == (3, 3)


async def test_arrivals_of_the_warm_up_do_not_count() -> None:
    requests: list[Request] = [failing(RequestFailed("cold")), never, answer, answer]
    due = schedule(0.0, 0.01, 0.05, 0.06, warmup_s=0.04)
    load = await open_loop(requests, due, Bounds(100, drain_s=0.1))
    assert load.arrivals == len(load.latencies_s) == 2
    assert not load.reasons


async def test_answers_are_counted_in_the_seconds_they_came_in() -> None:
    """After the last arrival a server works off what it owes: that is not its rate."""
    after, number = 0.2, iter(range(3))

    async def send() -> int:
        await asyncio.sleep(after if next(number) == 2 else 0.0)
        return 10

    load = await run(send, schedule(0.0, 0.02, 0.06))
    assert (load.in_time, load.tokens) == (2, 20)
    assert len(load.latencies_s) == 3


async def test_error_that_is_no_failed_request_ends_the_run_as_itself() -> None:
    with pytest.raises(KeyError, match="index"):
        await open_loop(
            [failing(KeyError("index")), never], schedule(0.0, 30.0), Bounds(10, drain_s=30.0)
        )


async def test_what_the_client_is_late_by_is_told() -> None:
    busy_s = iter((0.1, 0.0))

    async def send() -> int:
        time.sleep(next(busy_s))  # noqa: ASYNC251 - the client's own loop can do nothing else
        return 1

    load = await run(send, schedule(0.0, 0.02))
    assert load.late_s[1] >= 0.05
    assert load.late_s[0] < 0.05
