"""Every series there is: of our registry, of our rules, and of others that we name."""

from typing import Any

import yaml
from prometheus_server import RULES

from observability.metrics import Metrics

_OF_A_HISTOGRAM = ("_bucket", "_sum", "_count")
TARGET = frozenset({"namespace", "job", "instance"})  # what a scrape adds; an operator's, the first

# Of Prometheus itself and of redis_exporter.
OTHERS: dict[str, frozenset[str]] = {
    "up": TARGET,
    "ALERTS": frozenset({"alertname", "alertstate"}),
    **{
        f"redis_{name}": TARGET
        for name in (
            *("memory_used_bytes", "memory_max_bytes", "connected_clients", "blocked_clients"),
            *("commands_processed_total", "evicted_keys_total"),
        )
    },
}

# Why no panel and no rule shows them.
UNUSED = {
    "process_virtual_memory_bytes": "address space is not memory",
}


def families() -> dict[str, tuple[str, ...]]:
    """The series that make up each metric of a process, by its name."""
    metrics = Metrics()
    ours = {
        one.name: tuple(one.name + end for end in _OF_A_HISTOGRAM)
        if one.kind == "histogram"
        else (one.name,)
        for one in metrics.described
    }
    of_process = {
        sample.name: (sample.name,)
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name.startswith("process_")
    }
    return ours | of_process


def labels() -> dict[str, frozenset[str]]:
    """By series: the labels it has."""
    ours = {one.name: frozenset(one.labels) for one in Metrics().described}
    exported = {
        one: TARGET | ours.get(name, frozenset()) | ({"le"} if one.endswith("_bucket") else set())
        for name, series in families().items()
        for one in series
    }
    kept = frozenset({"namespace", "job", "model"})
    recorded = {rule["record"]: kept for rule in rules() if "record" in rule}
    return exported | recorded | OTHERS


def rules() -> list[dict[str, Any]]:
    """Recorded and alerting ones, of all files."""
    return [
        rule
        for path in sorted(RULES.glob("*.yaml"))
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    ]
