"""The figures in docs/reliability.md: sections between two comments, written by the commands."""

import os
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from statistics import median

from faults.load import Pace
from faults.trial import Trial
from redis_server import SERVER

_HEAD = (
    "| fault | runs | requests | in flight | lost | wrong | double-counted | left behind "
    "| recovery p50, s | max, s | counted |"
)


def table(trials: Sequence[Trial], pace: Pace) -> str:
    """Markdown: one row a fault, over all its runs, with date and versions."""
    rows = [_row(list(runs)) for _, runs in groupby(trials, key=lambda trial: trial.fault)]
    failed = [trial.explain().replace("\n", "; ") for trial in trials if not trial.holds]
    lines = [
        f"{stamp()}; {pace.requests_per_s:.0f} requests/s.",
        "",
        _HEAD,
        "|---|" + "---:|" * 9 + "---|",
        *rows,
        *(["", "Failed:", "", *(f"- {line}" for line in failed)] if failed else []),
    ]
    return "\n".join(lines)


def stamp() -> str:
    """When, on what, with which versions."""
    redis = subprocess.run([SERVER, "--version"], check=True, capture_output=True, text=True)
    found = re.search(r"v=(\S+)", redis.stdout)
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, "
        f"Florilege {version('florilege')}, Redis {found[1] if found else '?'}, "
        f"redis-py {version('redis')}, Python {platform.python_version()}"
    )


def replace_section(page: Path, name: str, text: str) -> None:
    """What stands between `<!-- name -->` and `<!-- /name -->`. Raises ValueError without both."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    old = page.read_text()
    before, begun, rest = old.partition(begin)
    _, ended, after = rest.partition(end)
    if not (begun and ended):
        raise ValueError(f"{page} has no section {name!r}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def _row(runs: list[Trial]) -> str:
    recoveries = [trial.recovery_s for trial in runs]
    in_flight = [trial.in_flight for trial in runs]
    counted = sum((Counter(trial.counted) for trial in runs), Counter[str]())
    cells = (
        runs[0].fault,
        len(runs),
        sum(trial.verdict.requests for trial in runs),
        f"{min(in_flight)}–{max(in_flight)}",
        sum(len(trial.verdict.lost) for trial in runs),
        sum(len(trial.verdict.wrong) for trial in runs),
        sum(len(trial.verdict.doubled) for trial in runs),
        sum(len(trial.left_behind) for trial in runs),
        f"{median(recoveries):.2f}",
        f"{max(recoveries):.2f}",
        ", ".join(f"{_short(name)} {count}" for name, count in counted.items() if count),
    )
    return f"| {' | '.join(map(str, cells))} |"


def _short(name: str) -> str:
    """Commands and errors as Redis calls them."""
    return name.removeprefix("redis_cmdstat_").removeprefix("redis_errorstat_").replace("|", " ")
