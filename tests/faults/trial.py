"""One fault under steady load: what it did, whether anything was lost, how long it was felt."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from faults.fleet import Counts, Fleet, until
from faults.history import Verdict, check
from faults.load import SLOW_S, Load, Pace
from load_driver import References
from redis_keyspace import left_behind, miscounted
from redis_server import RedisServer

from transport.redis.answers import DEDUP_LINGER_MS

_STEADY_ANSWERS = 60  # before the fault
_CALM_S = 1.5  # without a late answer: it is over
_RECOVERY_LIMIT_S = 90.0
_QUIET_LIMIT_S = 15.0
_RENEWED_S = 57  # the stream of a gateway that lives has longer than that
COUNTERS = (
    *("redelivered", "resubmitted", "redis_reconnects", "dead_lettered"),
    *("duplicate_replies", "late_finishes", "refused", "broken"),
)


@dataclass
class Hit:
    """The moment of a fault."""

    in_flight: int  # jobs that it could have lost
    at_s: float = field(default_factory=time.monotonic)
    complaints: list[str] = field(default_factory=list)  # of what the fault itself looked at
    counted: dict[str, int] = field(default_factory=dict)  # by the fault itself


ByProcess = Mapping[str, Counts]
Inject = Callable[[Fleet, Load], Awaitable[Hit]]


@dataclass(frozen=True)
class Fault:
    """`inject` returns when its cause is gone; `counters` are those that belong to it."""

    name: str
    inject: Inject
    counters: tuple[str, ...]
    quick: bool = False  # for every run of the tests
    breaks: bool = False  # clients may see connections break: whoever held them died
    kept: tuple[str, ...] = ()  # keys that it leaves on purpose, by what they begin with


@dataclass
class Trial:
    fault: str
    verdict: Verdict
    in_flight: int
    recovery_s: float  # from the fault to the last answer that came late
    counted: dict[str, int]  # COUNTERS, and those that belong to the fault
    left_behind: list[str]
    complaints: list[str]

    @property
    def holds(self) -> bool:
        return self.verdict.holds and not self.left_behind and not self.complaints

    def explain(self) -> str:
        verdict = self.verdict
        found = (*verdict.lost[:5], *map(str, verdict.wrong[:5]), *verdict.doubled[:5])
        rest = (*verdict.uncounted, *self.left_behind, *self.complaints)
        return "\n".join([self.fault, *found, *rest])


async def run_trial(
    fleet: Fleet, fault: Fault, references: References, pace: Pace | None = None
) -> Trial:
    """The fleet is whole before and after."""
    before, redis_before = await fleet.counts(), fleet.redis_counts()
    load = Load(fleet.rotation, pace)
    async with load:
        await until(lambda: load.answered >= _STEADY_ANSWERS, 30)
        hit = await fault.inject(fleet, load)
        await _until_calm(load)
        await fleet.until_all_serve()
    left = await _left_behind(fleet, fault)
    after = await fleet.counts()
    kinds = Counter(event.kind for event in load.history)
    moved = _moved(before, after)
    moved.update(_redis_moved(redis_before, fleet.redis_counts()))
    moved.update({"refused": kinds["refused"], "broken": kinds["broken"], **hit.counted})
    complaints = [*hit.complaints, *without_proof(fault, hit, moved)]
    if kinds["broken"] and not fault.breaks:
        complaints.append(f"{kinds['broken']} connections of clients broke")
    verdict = check(load.history, references.vector, _tokens(fleet, before, after))
    return Trial(
        fault=fault.name,
        verdict=verdict,
        in_flight=hit.in_flight,
        recovery_s=_recovery_s(load, hit),
        counted={name: int(moved[name]) for name in dict.fromkeys((*fault.counters, *COUNTERS))},
        left_behind=left,
        complaints=complaints,
    )


def failed_trial(fault: str, error: Exception) -> Trial:
    """Of a fault that the fleet did not come back from, or that never came about."""
    complaint = f"{type(error).__name__}: {error}"
    return Trial(fault, Verdict(), 0, 0.0, {}, [], [complaint])


async def _until_calm(load: Load) -> None:
    calm_since_s = time.monotonic()

    def calm() -> bool:
        nonlocal calm_since_s
        now_s = time.monotonic()
        if load.overdue(now_s):
            calm_since_s = now_s
        return now_s - max(calm_since_s, load.trouble_s) > _CALM_S

    await until(calm, _RECOVERY_LIMIT_S)


async def _left_behind(fleet: Fleet, fault: Fault) -> list[str]:
    """What is still there when nobody waits for anything, and nothing more goes away."""
    found: list[str] = []

    def clean() -> bool:
        found[:] = [
            line
            for line in (
                *left_behind(fleet.redis),
                *miscounted(fleet.redis),
                *_unanswered(fleet.redis),
            )
            if not line.startswith(fault.kept or ("\0",)) and not _is_of_a_dead_gateway(fleet, line)
        ]
        return not found

    try:
        await until(clean, _QUIET_LIMIT_S)
    except TimeoutError:
        return found
    return []


def _unanswered(redis: RedisServer) -> list[str]:
    """Jobs that ended are remembered for a few seconds more; others have their whole budget."""
    with redis.client() as client:
        left_ms = {key.decode(): int(client.pttl(key)) for key in client.keys("florilege:dd:*")}
    return [f"{key}: not answered" for key, ms in left_ms.items() if ms > DEDUP_LINGER_MS]


def _is_of_a_dead_gateway(fleet: Fleet, line: str) -> bool:
    """Nobody renews its stream, which ends within a minute."""
    key = ":".join(line.split(":")[:3])
    if not key.startswith("florilege:rep:"):
        return False
    with fleet.redis.client() as client:
        return 0 <= int(client.ttl(key)) < _RENEWED_S


def _moved(before: ByProcess, after: ByProcess) -> Counts:
    """What all processes counted meanwhile; one that is new began at zero."""
    moved: Counts = Counter()
    for process, counts in after.items():
        known = before.get(process, Counter())
        for name, value in counts.items():
            moved[name.removeprefix("florilege_").removesuffix("_total")] += value - known[name]
    return moved


def _redis_moved(before: Counts, after: Counts) -> Counts:
    """A server that is new began at zero."""
    return Counter({n: v if v < before[n] else v - before[n] for n, v in after.items()})


def without_proof(fault: Fault, hit: Hit, moved: Counts) -> list[str]:
    missing = [f"{name} did not move" for name in fault.counters if moved[name] <= 0]
    if hit.in_flight <= 0:
        missing.append("no job was in flight")
    return missing


def _tokens(fleet: Fleet, before: ByProcess, after: ByProcess) -> dict[str, int]:
    """By gateway that still lives.

    One that was killed or replaced took its counts with it, and asking it just before would leave
    out what it still answers while it drains. Its answers are checked as all others are.
    """
    name = "florilege_tokens_total"
    return {
        gateway.url: int(after[url][name] - before.get(url, Counter())[name])
        for gateway in fleet.gateways
        if (url := gateway.admin_url)
    }


def _recovery_s(load: Load, hit: Hit) -> float:
    """Until the last request that took too long was answered; where none did, those in flight."""
    began: dict[int, float] = {}
    last_s = hit.at_s
    for event in load.history:
        if event.kind == "invoke":
            began[event.request] = event.at_s
        elif event.kind == "ok" and event.at_s > hit.at_s:
            began_s = began[event.request]
            if began_s <= hit.at_s or event.at_s - began_s > SLOW_S:
                last_s = max(last_s, event.at_s)
    return last_s - hit.at_s
