"""How late the event loop is."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from observability.loop_lag import watch_loop
from observability.metrics import Metrics

WaitUntil = Callable[..., Awaitable[None]]


async def test_work_that_blocks_the_loop_is_seen_as_its_lag(wait_until: WaitUntil) -> None:
    metrics = Metrics()

    def value(name: str) -> float:
        return metrics.registry.get_sample_value(f"florilege_loop_lag_seconds_{name}") or 0.0

    task = asyncio.create_task(watch_loop(metrics, period_s=0.001))
    await wait_until(lambda: value("count") > 0)
    before_s = value("sum")
    time.sleep(0.05)  # noqa: ASYNC251  that is what is to be seen
    await wait_until(lambda: value("sum") - before_s > 0.04)
    task.cancel()
