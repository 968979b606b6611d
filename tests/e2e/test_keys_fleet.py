"""Two gateways on one database and one Redis: what is changed at one place holds at both."""

import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from deployment import Deployment, deployment
from key_ring import KeyRing, Made
from redis_server import RedisServer, running_redis
from server_process import ServerProcess, florilege

BOUND_S, TYPICAL_S = 5.0, 1.0  # of a revocation
AT_ONCE = 20  # requests of a key's burst; the next one is a place of the rate later
PLACE_S = 30.0
REQUESTS = {"rpm": 2, "burst_s": AT_ONCE * PLACE_S}
TOKENS = {"tpm": 2 * 4, "burst_s": AT_ONCE * PLACE_S}  # of requests of four


@dataclass
class Fleet:
    redis: RedisServer
    data_dir: Path
    keys: dict[str, Made]
    deployed: Deployment

    @property
    def gateways(self) -> list[ServerProcess]:
        return self.deployed.processes[:2]

    def wait_until_served(self) -> None:
        key = self.keys["free"].key
        for gateway in self.gateways:
            gateway.wait_for(lambda gateway=gateway: gateway.embed(key).status_code == 200)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    data_dir: Path = tmp_path_factory.mktemp("data")
    ring = KeyRing(data_dir)
    keys = {name: ring.make(name) for name in ("free", "first", "second", "third")}
    keys |= {"rpm": ring.make("rpm", **REQUESTS), "tpm": ring.make("tpm", **TOKENS)}
    keys |= {"after": ring.make("after", **REQUESTS)}
    with running_redis() as redis, deployment(redis.url, data_dir) as deployed:
        deployed.gateway()
        deployed.gateway()
        deployed.simulated_worker()
        deployed.settle()
        fleet = Fleet(redis, data_dir, keys, deployed)
        fleet.wait_until_served()
        yield fleet
        for process in deployed.processes:
            assert process.stop() == 0, "".join(process.stderr)


def test_a_key_revoked_at_the_command_line_is_refused_by_every_gateway(fleet: Fleet) -> None:
    took_s = []
    for name in ("first", "second", "third"):
        made = fleet.keys[name]
        assert [g.embed(made.key).status_code for g in fleet.gateways] == [200, 200]
        florilege(fleet.data_dir, "keys", "revoke", made.kid, FLORILEGE_REDIS_URL=fleet.redis.url)
        revoked_s = time.monotonic()
        for gateway in fleet.gateways:
            gateway.wait_for(
                lambda gateway=gateway, key=made.key: gateway.embed(key).status_code == 401,
                timeout_s=BOUND_S,
            )
        took_s.append(time.monotonic() - revoked_s)
    worst, median = max(took_s), statistics.median(took_s)
    print(f"\nrevocation, two gateways: median {median:.3f} s, worst {worst:.3f} s")
    assert median < TYPICAL_S
    assert [g.embed(fleet.keys["free"].key).status_code for g in fleet.gateways] == [200, 200]


def accepted_of_a_burst(fleet: Fleet, made: Made) -> int:
    """Of three times as many requests as it allows, to both gateways at once.

    What a slow host adds to it, since its rate goes on, is taken off.
    """
    started_s = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        asking = [
            pool.submit(fleet.gateways[number % 2].embed, made.key) for number in range(3 * AT_ONCE)
        ]
        statuses = [future.result().status_code for future in asking]
    accepted = statuses.count(200)
    assert accepted + statuses.count(429) == len(statuses)
    return accepted - int((time.monotonic() - started_s) / PLACE_S)


@pytest.mark.parametrize("limit", ["rpm", "tpm"])
def test_gateways_grant_one_rate_together_to_the_last_request(fleet: Fleet, limit: str) -> None:
    assert accepted_of_a_burst(fleet, fleet.keys[limit]) == AT_ONCE


def is_unavailable(gateway: ServerProcess, key: str) -> bool:
    """By an answer that says so; for as long as Redis may be about to return, requests wait."""
    answer = gateway.embed(key, x_florilege_timeout_ms="1000")
    assert (answer.status_code, answer.headers.get("x-should-retry")) in (
        (503, None),
        (504, "false"),
    )
    return answer.status_code == 503 and int(answer.headers["retry-after"]) >= 1


def test_limits_are_shared_again_when_redis_is_back(fleet: Fleet) -> None:
    """Without it jobs find no worker; limits alone would not refuse anybody."""
    fleet.redis.kill()
    key = fleet.keys["after"].key
    for gateway in fleet.gateways:
        gateway.wait_for(lambda gateway=gateway: gateway.metric("florilege_ratelimit_local") == 1)
        gateway.wait_for(lambda gateway=gateway: gateway.said("limits_became_local"))
        gateway.wait_for(lambda gateway=gateway: is_unavailable(gateway, key))
        assert gateway.metric("florilege_ratelimit_backend_errors_total") >= 1
        assert gateway.embed("sk-wrong").status_code == 401
    fleet.redis.start()
    for gateway in fleet.gateways:
        gateway.wait_for(lambda gateway=gateway: gateway.metric("florilege_ratelimit_local") == 0)
        gateway.wait_for(lambda gateway=gateway: gateway.said("limits_are_shared_again"))
    fleet.wait_until_served()
    assert accepted_of_a_burst(fleet, fleet.keys["after"]) == AT_ONCE
