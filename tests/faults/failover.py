"""The master dies, and a replica takes its place."""

import asyncio
from typing import cast

from faults.fleet import Fleet, until
from faults.load import Load
from faults.replicas import Replicas
from faults.trial import Fault, Hit


async def kill_master(fleet: Fleet, load: Load) -> Hit:
    """The dead one comes back as the replica of the new master."""
    replicas = cast(Replicas, fleet.store)
    await until(fleet.waiting, 10)
    hit = Hit(fleet.waiting())
    dead = replicas.redis
    dead.kill()
    await until(replicas.follow, 30)
    await asyncio.to_thread(dead.start)
    replicas.replicate()
    await until(replicas.in_sync, 60)
    return hit


FAULTS = (Fault("Sentinel failover", kill_master, ("redis_reconnects", "resubmitted")),)
