"""The panels of the committed dashboards, and their queries as Grafana would send them."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_server import ROOT

DIRECTORY = ROOT / "deploy" / "grafana" / "dashboards"
FILES = sorted(DIRECTORY.glob("*.json"))


@dataclass(frozen=True)
class Panel:
    dashboard: str
    json: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.dashboard} / {self.json['title']}"

    @property
    def empty_ok(self) -> bool:
        return bool(self.json.get("empty_ok"))

    @property
    def exprs(self) -> list[str]:
        return [target["expr"] for target in self.json["targets"]]


def load(path: Path) -> dict[str, Any]:
    dashboard: dict[str, Any] = json.loads(path.read_text())
    return dashboard


def panels() -> Iterator[Panel]:
    """Of all dashboards, rows left out."""
    for path in FILES:
        for panel in load(path)["panels"]:
            if panel["type"] != "row":
                yield Panel(path.stem, panel)


def substituted(expr: str, rate_s: int, range_s: int) -> str:
    """With the built-in intervals, and all values chosen of each variable."""
    expr = expr.replace("$__rate_interval", f"{rate_s}s").replace("$__range", f"{range_s}s")
    return re.sub(r"\$\{?\w+\}?", ".*", expr)
