"""The users that docs/operations.md makes: each may do its work, and no more."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import NoPermissionError
from redis_server import RedisServer, running_redis
from redis_sides import NEVER_RENEWS, QUICK, RENEWS, receive, submit, where
from transport_jobs import MODEL, make_announcement, make_job, make_result

from auth.holder import Holder
from auth.limits.demand import Bucket, Budget, Demand, Slot
from auth.limits.redis import RedisLimits
from auth.record import Limits
from transport.messages import JobError
from transport.redis.client import RedisJobClient
from transport.redis.connections import Connections, RedisConfig
from transport.redis.consumer import ConsumerConfig, RedisJobConsumer
from transport.redis.nudge import RedisNudge
from transport.redis.scripts import LineScripts

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
PASSWORD = "PASSWORD"


def lines() -> list[str]:
    return PAGE.read_text().split("```acl\n")[1].split("```")[0].splitlines()


@pytest.fixture(scope="module")
def guarded() -> Iterator[RedisServer]:
    with running_redis() as server:
        for line in lines():
            server.call(*line.split())
        yield server


def as_user(server: RedisServer, role: str) -> RedisConfig:
    return replace(where(server), username=f"florilege-{role}", password=PASSWORD)


async def consumer(server: RedisServer, name: str, config: ConsumerConfig) -> RedisJobConsumer:
    made = RedisJobConsumer(as_user(server, "worker"), name, config)
    await made.start()
    await made.announce(make_announcement())
    return made


async def test_each_role_may_do_all_of_its_work(guarded: RedisServer) -> None:
    guarded.call("ACL", "LOG", "RESET")
    client = RedisJobClient(as_user(guarded, "gateway"), QUICK)
    await client.start()
    dying = [await consumer(guarded, f"dying-{i}", NEVER_RENEWS) for i in range(2)]
    living = await consumer(guarded, "living", RENEWS)
    deadly = await submit(client, make_job(lane="bulk"))
    await receive(dying[0])
    (again,) = await receive(dying[1])
    await dying[1].begin(again)
    while not deadly.done():
        assert await living.receive(MODEL, 1_000, 0.05) == []
    with pytest.raises(JobError, match="poison"):
        await deadly
    answered, unwanted, kept = [await submit(client) for _ in range(3)]
    first, second, third = await receive(living, 3)
    assert len(await living.renew([first, second])) == 2
    await living.complete(first, make_result(first.job))
    await answered
    unwanted.cancel()
    await asyncio.gather(unwanted, return_exceptions=True)
    await living.hand_back([third])
    guarded.call("FLUSHALL")
    (third,) = await receive(living)
    await living.complete(third, make_result(third.job))
    await kept
    for worker in (*dying, living):
        await worker.close()
    await client.close()
    assert guarded.call("ACL", "LOG") == ""


async def test_a_gateway_may_count_limits_and_nudge(guarded: RedisServer) -> None:
    guarded.call("ACL", "LOG", "RESET")
    connections = Connections(as_user(guarded, "gateway"), lambda *_: None)
    limits = RedisLimits(LineScripts(connections.unrepeated()), nothing_used)
    held = Limits(rpm=60, tpm=1_000, max_concurrency=2, daily_tokens=9, monthly_tokens=9)
    for holder in (Holder("key", "0123456789ab", held), Holder("project", "a b", held)):
        demand = Demand(
            buckets=(Bucket(holder, "requests", 1), Bucket(holder, "tokens", 1)),
            slots=(Slot(holder, "req", 60.0),),
            budgets=(Budget(holder, "daily", 1), Budget(holder, "monthly", 1)),
        )
        for _ in range(2):
            standing = await limits.take(demand)
            assert standing.refusal is None
            await limits.hand_in(standing.taken)
        slots = [Demand(slots=(Slot(holder, f"r{i}", 60.0),)) for i in range(3)]
        assert [(await limits.take(slot)).refusal is None for slot in slots] == [True, True, False]
    await limits.heartbeat()
    nudge = RedisNudge(connections)
    await nudge.send()
    async with asyncio.timeout(1):
        await nudge.wait()
    await connections.close()
    assert guarded.call("ACL", "LOG") == ""


async def nothing_used(holder: Holder, period: str) -> int:
    return 0


@pytest.mark.parametrize("role", ["gateway", "worker"])
@pytest.mark.parametrize(
    "command",
    ["FLUSHALL", "KEYS *", "CONFIG GET *", "GET other", "ACL LIST", "SCRIPT FLUSH", "SHUTDOWN"],
)
def test_no_role_may_do_more(guarded: RedisServer, role: str, command: str) -> None:
    with Redis(
        unix_socket_path=str(guarded.socket), username=f"florilege-{role}", password=PASSWORD
    ) as user:
        assert user.ping()
        with pytest.raises(NoPermissionError):
            user.execute_command(*command.split())


def test_gateway_may_not_say_what_models_there_are(guarded: RedisServer) -> None:
    with (
        Redis(
            unix_socket_path=str(guarded.socket), username="florilege-gateway", password=PASSWORD
        ) as user,
        pytest.raises(NoPermissionError),
    ):
        user.set("florilege:tok:ab", b"")
