"""Redis' clock is set while we run."""

import asyncio
from typing import Any

import pytest

from transport.redis.clock import RedisClock


class Stepping:
    """A Redis that answers at once, by a clock that is set."""

    ahead_s = 3_600.0

    async def execute(self, *arguments: str) -> tuple[bytes, bytes]:
        assert arguments == ("TIME",)
        now_s = asyncio.get_running_loop().time() + self.ahead_s
        return str(int(now_s)).encode(), str(int(now_s % 1 * 1e6)).encode()


@pytest.mark.parametrize("step_s", [-600.0, -1.0, 1.0, 600.0])
async def test_clock_that_was_set_is_followed_at_once(step_s: float) -> None:
    server, clock = Stepping(), RedisClock()
    line: Any = server
    for _ in range(8):
        await clock.calibrate(line)
    server.ahead_s += step_s
    await clock.calibrate(line)
    expected_ms = (asyncio.get_running_loop().time() + server.ahead_s) * 1000
    assert clock.now_ms() == pytest.approx(expected_ms, abs=5)
