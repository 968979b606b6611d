"""`python -m faults.soak [--minutes N] [--write FILE]`: steady load, and memory that stays flat."""

import argparse
import asyncio
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from faults.fleet import Fleet, running_fleet, until
from faults.history import Event, Verdict, check
from faults.load import Load, Pace
from faults.page import replace_section, stamp
from load_driver import References
from redis_keyspace import left_behind

_SAMPLE_S = 1.0
_WARM_UP = 0.2  # of the time: until every buffer and cache has its size
_MOST_GROWTH = 0.05
_ENDLESS = ("no time to live", "not documented")


@dataclass
class Soak:
    """What was seen of one run."""

    requests: int = 0
    bad: list[str] = field(default_factory=list)
    endless: set[str] = field(default_factory=set)  # keys that nothing would remove
    rss_mib: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def growth(self, process: str) -> tuple[float, float, float]:
        """MiB early, MiB late, and the difference as a share of the first."""
        samples = self.rss_mib[process]
        samples = samples[int(len(samples) * _WARM_UP) :]
        part = max(1, len(samples) // 4)
        early, late = median(samples[:part]), median(samples[-part:])
        return early, late, (late - early) / early

    @property
    def holds(self) -> bool:
        flat = all(self.growth(process)[2] <= _MOST_GROWTH for process in self.rss_mib)
        return flat and not self.bad and not self.endless

    def table(self, minutes: float) -> str:
        pace = Pace().requests_per_s
        lines = [
            f"{stamp()}; {minutes:g} min at {pace:.0f} requests/s, {self.requests} requests.",
            "",
            "| process | RSS early, MiB | RSS late, MiB | growth |",
            "|---|---:|---:|---:|",
        ]
        for process in self.rss_mib:
            early, late, growth = self.growth(process)
            lines.append(f"| {process} | {early:.1f} | {late:.1f} | {growth:+.1%} |")
        lines += [
            "",
            f"Lost, wrong or miscounted: {len(self.bad)}. "
            f"Keys without an end: {len(self.endless)}.",
        ]
        return "\n".join([*lines, *self.bad[:10], *sorted(self.endless)])


def main() -> None:
    parser = argparse.ArgumentParser(prog="faults.soak")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--write", type=Path, help="the page to write")
    arguments = parser.parse_args()
    soak = asyncio.run(_run(60 * arguments.minutes))
    text = soak.table(arguments.minutes)
    print(text)
    if arguments.write is not None:
        replace_section(arguments.write, "soak", text)
    sys.exit(not soak.holds)


async def _run(seconds: float) -> Soak:
    references, soak = References(), Soak()
    answered: Counter[str] = Counter()
    async with running_fleet() as fleet:
        load = Load(fleet.rotation)
        async with load:
            ends_s = time.monotonic() + seconds
            while time.monotonic() < ends_s:
                await asyncio.sleep(_SAMPLE_S)
                _sample(fleet, soak)
                _check(load.take_ended(), references, soak, answered)
        _check(load.take_ended(), references, soak, answered)
        counts = await fleet.counts()
        for gateway in fleet.gateways:
            counted = counts[gateway.admin_url]["florilege_tokens_total"]
            if counted != answered[gateway.url]:
                soak.bad.append(f"{counted:.0f} tokens counted, {answered[gateway.url]} answered")
        await until(lambda: not left_behind(fleet.redis), 15)
    return soak


def _sample(fleet: Fleet, soak: Soak) -> None:
    with fleet.redis.client() as client:
        redis = client.info("server")["process_id"]
    named = {"Redis": redis}
    for role, processes in (("gateway", fleet.gateways), ("worker", fleet.workers)):
        named |= {f"{role} {i + 1}": p.process.pid for i, p in enumerate(processes)}
    for name, pid in named.items():
        soak.rss_mib[name].append(_rss_mib(pid))
    soak.endless |= {line for line in left_behind(fleet.redis) if line.endswith(_ENDLESS)}


def _rss_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def _check(events: list[Event], references: References, soak: Soak, answered: Counter[str]) -> None:
    verdict: Verdict = check(events, references.vector, {})
    soak.requests += verdict.requests
    soak.bad += [*verdict.lost, *verdict.doubled, *(f"request {i}: wrong" for i in verdict.wrong)]
    for event in events:
        if event.kind == "ok":
            answered[event.gateway] += event.tokens
        elif event.kind in ("refused", "broken"):
            soak.bad.append(f"request {event.request}: {event.kind}")


if __name__ == "__main__":
    main()
