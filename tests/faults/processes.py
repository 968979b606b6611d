"""Faults of our own processes."""

import asyncio
import os
import signal
import time

import httpx
from faults.fleet import POISON, TOKENS, Fleet, Role, until
from faults.load import Load
from faults.trial import Fault, Hit
from server_process import ServerProcess

from checkpoint.find import DEFAULT_MODEL

_STOPPED_S = 15.0
_ABSENT_S = 14.0  # jobs wait 8 s for a worker, and the gateway looks once a second


async def kill_worker(fleet: Fleet, load: Load) -> Hit:
    """Amid a batch."""
    held = await _freeze_with_jobs(fleet, fleet.workers[0])
    fleet.workers[0].process.kill()
    return Hit(held)


async def kill_all_workers(fleet: Fleet, load: Load) -> Hit:
    held = [await _freeze_with_jobs(fleet, worker) for worker in fleet.workers]
    for worker in fleet.workers:
        worker.process.kill()
    return Hit(sum(held))


async def leave_no_worker(fleet: Fleet, load: Load) -> Hit:
    """Whoever waits is told to come again, and nothing is left in Redis for whoever comes later."""
    fleet.supervised = False
    hit = await kill_all_workers(fleet, load)
    await asyncio.sleep(_ABSENT_S)
    with fleet.redis.client() as client:
        if left := fleet.waiting():
            hit.complaints.append(f"{left} jobs wait for nobody")
        if counted := sum(int(client.get(key) or 0) for key in TOKENS):
            hit.complaints.append(f"{counted} tokens of nobody are counted")
    fleet.supervised = True
    return hit


async def kill_during_reclaim(fleet: Fleet, load: Load) -> Hit:
    """Whoever took over a dead worker's jobs dies before it has begun the first of them."""
    hit = await kill_worker(fleet, load)
    while True:
        claimant = await _claimant(fleet)
        os.kill(claimant.process.pid, signal.SIGSTOP)
        held = fleet.held(claimant)
        if _has_old_of(fleet, claimant) and all(times == 1 for times in held):
            claimant.process.kill()
            hit.counted["killed claiming"] = len(held)
            return hit
        os.kill(claimant.process.pid, signal.SIGCONT)  # too late: it has begun one
        await until(lambda: not _has_old(fleet), 30)
        hit = await kill_worker(fleet, load)


async def stop_worker(fleet: Fleet, load: Load) -> Hit:
    """It lives on when others have answered its jobs."""
    worker = fleet.workers[0]
    held = await _freeze_with_jobs(fleet, worker)
    hit = Hit(held)
    await asyncio.sleep(_STOPPED_S)
    os.kill(worker.process.pid, signal.SIGCONT)
    return hit


async def kill_gateway(fleet: Fleet, load: Load) -> Hit:
    """Its clients try again at the other one."""
    gateway = fleet.gateways[0]
    await until(lambda: load.open_at(gateway.url) and fleet.waiting(), 10)
    in_flight = load.open_at(gateway.url)
    gateway.process.kill()
    return Hit(in_flight)


async def poison(fleet: Fleet, load: Load) -> Hit:
    """An input that ends every worker that runs it: its caller alone gets an error."""
    gateway = fleet.gateways[0].url
    await until(fleet.waiting, 10)
    hit = Hit(fleet.waiting())
    async with httpx.AsyncClient(timeout=60) as client:
        body = {"model": DEFAULT_MODEL, "input": POISON}
        answer = await client.post(f"{gateway}/v1/embeddings", json=body)
    if answer.status_code != 500 or answer.json()["error"]["code"] != "poison_job":
        hit.complaints.append(f"the poison was answered with {answer.status_code}")
    if answer.headers.get("x-should-retry") != "false":
        hit.complaints.append("the caller is not told that it is in vain")
    return hit


async def restart_all(fleet: Fleet, load: Load) -> Hit:
    """As deployments do: the new one serves before the old one is asked to end.

    Each old one is asked at a moment when it has jobs in its hands.
    """
    fleet.supervised = False
    await until(fleet.waiting, 10)
    hit = Hit(fleet.waiting(), counted={"replaced": 0})
    roles: tuple[Role, Role] = ("worker", "gateway")
    for role in roles:
        for place in range(2):
            new = fleet.begin(role, place)
            await asyncio.to_thread(new.wait_until_serving)
            code = (
                await _replace_worker(fleet, place, new)
                if role == "worker"
                else (await _replace_gateway(fleet, load, place, new))
            )
            if code != 0:
                hit.complaints.append(f"a {role} ended with {code}")
            hit.counted["replaced"] += 1
    fleet.supervised = True
    return hit


async def _replace_worker(fleet: Fleet, place: int, new: ServerProcess) -> int:
    """The exit code of the old one."""
    old = fleet.workers[place]
    await fleet.admit("worker", new, place)
    await until(lambda: fleet.held(old), 10)
    return await asyncio.to_thread(old.stop)


async def _replace_gateway(fleet: Fleet, load: Load, place: int, new: ServerProcess) -> int:
    """The exit code of the old one, which is out of rotation when it is asked to end."""
    old = fleet.gateways[place]
    await until(lambda: _is_ready(new), 20)
    await until(lambda: load.open_at(old.url), 10)
    await fleet.admit("gateway", new, place)
    return await asyncio.to_thread(old.stop)


async def _is_ready(process: ServerProcess) -> bool:
    async with httpx.AsyncClient(timeout=5) as client:
        return (await client.get(f"{process.admin_url}/health/ready")).status_code == 200


async def _freeze_with_jobs(fleet: Fleet, worker: ServerProcess) -> int:
    """Stop the process at a moment when it has jobs in its hands. How many."""
    limit_s = time.monotonic() + 20
    while time.monotonic() < limit_s:
        await until(lambda: fleet.held(worker), 10)
        os.kill(worker.process.pid, signal.SIGSTOP)
        if held := fleet.held(worker):
            return len(held)
        os.kill(worker.process.pid, signal.SIGCONT)
    raise TimeoutError("no job came to the worker")


async def _claimant(fleet: Fleet) -> ServerProcess:
    """Who has jobs that are older than a lease."""
    found: list[ServerProcess] = []

    def look() -> bool:
        found[:] = [worker for worker in fleet.workers if _has_old_of(fleet, worker)]
        return bool(found)

    await until(look, 30)
    return found[0]


def _has_old_of(fleet: Fleet, worker: ServerProcess) -> bool:
    return worker.process.poll() is None and fleet.oldest_held_s(worker) > 7.0


def _has_old(fleet: Fleet) -> bool:
    return any(_has_old_of(fleet, worker) for worker in fleet.workers)


FAULTS = (
    Fault("worker killed amid a batch", kill_worker, ("redelivered",), quick=True),
    Fault("all workers killed", kill_all_workers, ("redelivered",)),
    Fault("no worker for 14 s", leave_no_worker, ("refused",)),
    Fault(
        "worker killed while it reclaims", kill_during_reclaim, ("killed claiming", "redelivered")
    ),
    Fault("worker stopped for 15 s", stop_worker, ("redelivered", "late_finishes")),
    Fault("gateway killed", kill_gateway, ("broken",), quick=True, breaks=True),
    Fault(
        "job that kills its workers",
        poison,
        ("redelivered", "dead_lettered"),
        quick=True,
        kept=("florilege:dlq:",),
    ),
    Fault("rolling restart of both roles", restart_all, ("replaced",)),
)
