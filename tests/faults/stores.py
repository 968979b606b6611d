"""Faults of Redis itself."""

import asyncio

from faults.fleet import QUEUES, Fleet, until
from faults.load import Load
from faults.trial import Fault, Hit

from transport.redis.keys import GROUP

_AWAY_S = 0.5
_PAUSE_S = 3.0
_FULL_S = 2.0


async def restart_empty(fleet: Fleet, load: Load) -> Hit:
    """Killed, and back without any of its memory."""
    hit = await _hit(fleet)
    fleet.redis.kill()
    await asyncio.sleep(_AWAY_S)
    await asyncio.to_thread(fleet.redis.start)
    return hit


async def kill_clients(fleet: Fleet, load: Load) -> Hit:
    hit = await _hit(fleet)
    fleet.redis.call("CLIENT", "KILL", "TYPE", "normal")
    return hit


async def pause_clients(fleet: Fleet, load: Load) -> Hit:
    """Longer than a command waits for its answer."""
    hit = await _hit(fleet)
    fleet.redis.call("CLIENT", "PAUSE", str(int(_PAUSE_S * 1000)), "ALL")
    await asyncio.sleep(_PAUSE_S)
    return hit


async def flush(fleet: Fleet, load: Load) -> Hit:
    hit = await _hit(fleet)
    fleet.redis.call("FLUSHALL")
    return hit


async def destroy_groups(fleet: Fleet, load: Load) -> Hit:
    hit = await _hit(fleet)
    for queue in QUEUES:
        fleet.redis.call("XGROUP", "DESTROY", queue, GROUP)
    return hit


async def flush_scripts(fleet: Fleet, load: Load) -> Hit:
    hit = await _hit(fleet)
    fleet.redis.call("SCRIPT", "FLUSH")
    return hit


async def fill_memory(fleet: Fleet, load: Load) -> Hit:
    """New jobs are refused meanwhile; those in flight are answered, by new connections too."""
    hit = await _hit(fleet)
    fleet.redis.call("CONFIG", "SET", "maxmemory", "1mb")
    fleet.redis.call("CLIENT", "KILL", "TYPE", "normal")
    before = load.answered
    await asyncio.sleep(_FULL_S)
    if load.answered == before:
        hit.complaints.append("no job was answered while memory was full")
    if waiting := fleet.waiting():
        hit.complaints.append(f"{waiting} jobs still wait in a full Redis")
    fleet.redis.call("CONFIG", "SET", "maxmemory", "0")
    return hit


async def _hit(fleet: Fleet) -> Hit:
    await until(fleet.waiting, 10)
    return Hit(fleet.waiting())


FAULTS = (
    Fault(
        "Redis killed, back empty", restart_empty, ("resubmitted", "redis_reconnects"), quick=True
    ),
    Fault("CLIENT KILL", kill_clients, ("redis_reconnects",), quick=True),
    Fault("CLIENT PAUSE for 3 s", pause_clients, ("redis_reconnects",)),
    Fault("FLUSHALL", flush, ("resubmitted",), quick=True),
    Fault("XGROUP DESTROY", destroy_groups, ("redis_cmdstat_xgroup|create",), quick=True),
    Fault("SCRIPT FLUSH", flush_scripts, ("redis_cmdstat_eval",), quick=True),
    Fault(
        "maxmemory reached, and CLIENT KILL",
        fill_memory,
        ("refused", "redis_errorstat_OOM", "redis_reconnects"),
    ),
)
