"""Processes that come and go under load, by order or by accident: no request is dropped."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from deployment import MODEL, Deployment, deployment
from load_driver import LoadDriver, References
from redis_server import RedisServer, running_redis
from server_process import ServerProcess

SPEED = ("--tokens-per-s", "20000", "--step-s", "0.005")
# So slow that a worker always has something to do, however slow its clients are.
BUSY = ("--tokens-per-s", "20000", "--step-s", "0.1")
END_ID = 9947  # "poison" in MiniLM's vocabulary


@pytest.fixture(scope="module")
def references() -> References:
    return References()


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def deployed(redis: RedisServer, tmp_path: Path) -> Iterator[Deployment]:
    with deployment(redis.url, tmp_path) as deployed:
        yield deployed


@asynccontextmanager
async def loaded(
    gateways: list[ServerProcess], references: References
) -> AsyncIterator[LoadDriver]:
    """At the end every answer is there, and right."""
    load = LoadDriver([gateway.url for gateway in gateways], references)
    load.start(clients=8)
    yield load
    await load.stop()
    assert not load.failures
    assert not load.wrong


async def wait_for(process: ServerProcess, metric: str, least: float = 1) -> None:
    async with asyncio.timeout(20):
        while await asyncio.to_thread(process.metric, metric) < least:
            await asyncio.sleep(0.05)


async def two_of_each(
    deployed: Deployment, speed: tuple[str, ...]
) -> tuple[list[ServerProcess], list[ServerProcess]]:
    """Gateways that know of both workers, and the workers."""
    gateways = [deployed.gateway() for _ in range(2)]
    workers = [deployed.simulated_worker(*speed) for _ in range(2)]
    await asyncio.to_thread(deployed.settle)
    for gateway in gateways:
        await wait_for(gateway, "florilege_live_workers", 2)
    return gateways, workers


async def test_rolling_restart_of_everything_drops_no_request(
    deployed: Deployment, redis: RedisServer, references: References
) -> None:
    gateways, workers = await two_of_each(deployed, SPEED)
    async with loaded(gateways, references) as load:
        await load.until(50)
        new_workers = [deployed.simulated_worker(*SPEED) for _ in range(2)]
        new_gateways = [deployed.gateway() for _ in range(2)]
        await asyncio.to_thread(deployed.settle)
        for old in workers:
            assert await asyncio.to_thread(old.stop) == 0
            await load.until(50)
        for index, (old, new) in enumerate(zip(gateways, new_gateways, strict=True)):
            await wait_for(new, "florilege_live_workers", len(new_workers))
            load.rotation[index] = new.url  # as a balancer does, before it stops the old one
            await load.until(20)
            assert await asyncio.to_thread(old.stop) == 0
            await load.until(50)
    assert redis.call("XLEN", "florilege:q:sentence-transformers/all-MiniLM-L6-v2") == "0"


async def test_worker_killed_under_load_costs_time_and_no_answer(
    deployed: Deployment, references: References
) -> None:
    gateways, workers = await two_of_each(deployed, BUSY)
    async with loaded(gateways, references) as load:
        await load.until(50)
        workers[0].process.kill()
        await wait_for(workers[1], "florilege_redelivered_total")
        await load.until(50)


async def test_dead_engine_ends_its_worker_and_another_answers_its_job(
    deployed: Deployment,
) -> None:
    gateway = deployed.gateway()
    deadly = deployed.simulated_worker("--fault", f"{END_ID}=end")
    await asyncio.to_thread(deployed.settle)
    await wait_for(gateway, "florilege_live_workers")
    with gateway.client() as client:
        body = {"model": MODEL, "input": "poison"}
        asking = asyncio.create_task(asyncio.to_thread(client.post, "/v1/embeddings", json=body))
        assert await asyncio.to_thread(deadly.process.wait, 20) == 70
        assert any(line["event"] == "engine_died" for line in deadly.log)
        healthy = deployed.simulated_worker()
        assert (await asking).status_code == 200
    await asyncio.to_thread(healthy.wait_until_serving)
    assert await asyncio.to_thread(healthy.metric, "florilege_redelivered_total") == 1
