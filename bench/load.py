"""Closed loop: so many clients, each sending its next request when its last is answered."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

# Sends one prepared request and returns the tokens that the server counted.
Request = Callable[[], Awaitable[int]]


@dataclass(frozen=True)
class Load:
    """What a run gave. `latencies_s`: one a request, from the moment it was due to the vectors."""

    latencies_s: list[float]
    tokens: int
    wall_s: float


async def closed_loop(requests: Sequence[Request], clients: int) -> Load:
    """Send all `requests`, each once. The first that fails ends the run.

    A request is due the moment a client is free for it, so that encoding the body, the network,
    the server and decoding the vectors all count.
    """
    waiting = iter(requests)
    latencies_s: list[float] = []
    tokens = 0

    async def client() -> None:
        nonlocal tokens
        for request in waiting:
            due_s = time.perf_counter()
            counted = await request()
            latencies_s.append(time.perf_counter() - due_s)
            tokens += counted  # not `+= await`, which reads the sum before it waits

    started_s = time.perf_counter()
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(client())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return Load(latencies_s, tokens, time.perf_counter() - started_s)
