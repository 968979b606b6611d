"""What every test may use."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator

import hypothesis
import pytest
from redis_server import RedisServer, running_redis

# Before the first import of triton: its kernels then run on the tensors of a CPU.
os.environ["TRITON_INTERPRET"] = "1"

# How long an example takes depends on what else the host does.
hypothesis.settings.register_profile("any host", deadline=None)
hypothesis.settings.load_profile("any host")

Predicate = Callable[[], object]


async def _wait_until(predicate: Predicate, timeout_s: float = 10.0) -> None:
    """Poll until the predicate holds. The only waiting that tests do."""
    async with asyncio.timeout(timeout_s):
        while not predicate():
            await asyncio.sleep(0.001)


@pytest.fixture
def wait_until() -> Callable[..., Awaitable[None]]:
    return _wait_until


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """For layers so small that torch's threads would wait for each other most of the time."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def redis_of_module() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def redis(redis_of_module: RedisServer) -> RedisServer:
    """Private to the module, and empty."""
    redis_of_module.call("FLUSHALL")
    return redis_of_module
