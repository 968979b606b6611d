"""What the transport has in Redis, and what of it should not be there."""

from typing import Any

from redis import Redis
from redis_server import RedisServer

_DAY_S, _MINUTE_S = 86_400, 60
# How long each may live at most, by the first part of its name: see transport/redis/keys.py; of the
# last three, auth/limits/redis.py.
_LONGEST_S = {
    "models": _DAY_S,
    "model": _DAY_S,
    "tok": _DAY_S,
    "hb": _DAY_S,
    "q": _DAY_S,
    "tokens": _DAY_S,
    "rep": _MINUTE_S,
    "dd": 11 * _MINUTE_S,
    "dlq": 7 * _DAY_S,
    "rl": 60 * _MINUTE_S,
    "lease": 15 * _MINUTE_S,
    "use": 32 * _DAY_S,
}


def left_behind(redis: RedisServer) -> list[str]:
    """What is in Redis though nobody waits for anything: undocumented keys, keys without an end,
    jobs, deliveries, answers, and tokens that are counted and not there."""
    with redis.client() as client:
        return [
            f"{key.decode()}: {complaint}"
            for key in sorted(client.keys("*"))
            for complaint in _complaints(client, key)
        ]


def miscounted(redis: RedisServer) -> list[str]:
    """Queues whose counter of tokens differs from what is in them."""
    with redis.client() as client:
        found = []
        for queue in client.scan_iter("florilege:q:*"):
            counter = queue.replace(b":q:", b":tokens:", 1)
            counted = int(client.get(counter) or 0)
            there = sum(int(fields[b"t"]) for _, fields in client.xrange(queue))
            if counted != there:
                found.append(f"{queue.decode()}: {there} tokens, counted {counted}")
        return found


def _complaints(client: "Redis[Any]", key: bytes) -> list[str]:
    product, _, rest = key.decode().partition(":")
    kind = rest.split(":")[0]
    if product != "florilege" or kind not in _LONGEST_S:
        return ["not documented"]
    complaints = []
    left_s = client.ttl(key)
    if left_s == -1:
        complaints.append("no time to live")
    elif left_s > _LONGEST_S[kind]:
        complaints.append(f"lives for {left_s} s")
    if kind in ("q", "rep") and (entries := client.xlen(key)):
        complaints.append(f"{entries} entries")
    if kind == "q" and (pending := client.xpending(key, "w")["pending"]):
        complaints.append(f"{pending} deliveries")
    if kind == "tokens" and (tokens := int(client.get(key) or 0)):
        complaints.append(f"{tokens} tokens")
    return complaints
