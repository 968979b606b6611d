"""How late the event loop is: what every request on it waits for besides its own work."""

import asyncio

from observability.metrics import Metrics


async def watch_loop(metrics: Metrics, period_s: float = 0.25) -> None:
    """Sleep and look at the clock, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + period_s
        await asyncio.sleep(period_s)
        metrics.loop_lag.observe(max(0.0, loop.time() - due_s))
