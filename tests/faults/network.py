"""Faults between our processes and Redis; half of the processes are behind the proxy."""

import asyncio

from faults.fleet import Fleet, until
from faults.load import Load
from faults.proxy import Proxy
from faults.trial import Fault, Hit

_LOSSY_S = 2.0
_SILENT_S = 4.0
_SLOW_S = 2.0


async def drop_replies(fleet: Fleet, load: Load) -> Hit:
    """The command ran; whoever sent it does not hear of it."""
    proxy, hit = await _hit(fleet)
    dropped = proxy.dropped
    proxy.drop_share = 0.1
    await asyncio.sleep(_LOSSY_S)
    proxy.drop_share = 0.0
    hit.counted["dropped"] = proxy.dropped - dropped
    return hit


async def half_close(fleet: Fleet, load: Load) -> Hit:
    """Redis still serves connections of which we have heard the end: deliveries go nowhere."""
    proxy, hit = await _hit(fleet)
    proxy.half_close()
    await asyncio.sleep(_SILENT_S)
    proxy.forget_half_closed()
    return hit


async def black_hole(fleet: Fleet, load: Load) -> Hit:
    """Neither end hears anything, not even that the connection is gone."""
    proxy, hit = await _hit(fleet)
    proxy.black_hole()
    await asyncio.sleep(_SILENT_S)
    proxy.pass_on()
    return hit


async def delay(fleet: Fleet, load: Load) -> Hit:
    """Replies come late, and none so late that it is given up."""
    proxy, hit = await _hit(fleet)
    delayed = proxy.delayed
    proxy.delay_s = 0.1
    await asyncio.sleep(_SLOW_S)
    proxy.delay_s = 0.0
    hit.counted["delayed"] = proxy.delayed - delayed
    return hit


async def _hit(fleet: Fleet) -> tuple[Proxy, Hit]:
    assert fleet.proxy is not None
    await until(fleet.waiting, 10)
    return fleet.proxy, Hit(fleet.waiting())


FAULTS = (
    Fault(
        "replies dropped after the command ran",
        drop_replies,
        ("dropped", "redis_reconnects"),
        quick=True,
    ),
    Fault("half-closed connections", half_close, ("redis_reconnects",)),
    Fault("black hole for 4 s", black_hole, ("redis_reconnects",)),
    Fault("replies 100 ms late", delay, ("delayed",)),
)
