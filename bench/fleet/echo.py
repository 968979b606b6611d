"""A worker without an engine: what a job meets is the transport alone.

python -m bench.fleet.echo REDIS_URL
"""

import asyncio
import signal
import sys
import time
from dataclasses import replace
from itertools import count

import numpy as np
import uvloop

from checkpoint.spec import ModelSpec
from transport.messages import Job, JobResult
from transport.protocols import Announcement, JobConsumer
from transport.redis.connections import RedisConfig
from transport.redis.consumer import RedisJobConsumer

MODEL = "echo"
_DIM = 384
_MAX_TOKENS = 8_192
_HEARTBEAT_S = 2.0
_numbers = count()


def make_job(tokens: int) -> Job:
    ids, lengths = np.arange(tokens, dtype=np.int32), np.array([tokens], np.int32)
    return Job(f"job-{next(_numbers)}", MODEL, "embed", ids, lengths)


def announcement() -> Announcement:
    spec = ModelSpec(
        id=MODEL,
        task="embed",
        family="bert",
        dim=_DIM,
        max_tokens=_MAX_TOKENS,
        max_tokens_source="the bench",
        vocab_size=_MAX_TOKENS,
        tokenizer_sha256="0" * 64,
        revision="",
    )
    return Announcement(spec, b"{}")


async def echo(consumer: JobConsumer) -> None:
    """Answer as a worker does, at once. The answers say when their jobs came and went."""
    rows = np.random.default_rng(0).standard_normal((1, _DIM), np.float32)
    answer = JobResult("", np.array([0, 1], np.int32), rows)
    while True:
        for delivery in await consumer.receive(MODEL, _MAX_TOKENS, 0.5):
            received_s = time.perf_counter()  # one clock for all processes of the machine
            for wanted in await consumer.renew([delivery]):
                timings = {"received": received_s, "answered": time.perf_counter()}
                job_id = wanted.job.job_id
                await consumer.complete(wanted, replace(answer, job_id=job_id, timings=timings))


async def main(redis_url: str) -> None:
    consumer = RedisJobConsumer(RedisConfig(redis_url), "echo")
    await consumer.start()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await consumer.announce(announcement())
    echoing = asyncio.create_task(echo(consumer))
    print('{"event":"serving"}', flush=True)
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), _HEARTBEAT_S)
        except TimeoutError:
            await consumer.announce(announcement())
    echoing.cancel()
    await consumer.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
