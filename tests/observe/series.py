"""Every series there is: of our registry, of our rules, and of others that we name."""

from typing import Any

import yaml
from prometheus_server import RULES

from observability.metrics import Metrics

_SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
    "info": ("_info",),
}
TARGET = frozenset({"job", "instance"})  # what a scrape adds

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
    """The series that make up each metric of the registry, by its name."""
    return {
        family.name: tuple(family.name + suffix for suffix in _SUFFIXES[family.type])
        for family in Metrics().registry.collect()
    }


def labels() -> dict[str, frozenset[str]]:
    """By series: the labels it has."""
    own = _labels_of_registry()
    recorded = {rule["record"]: frozenset({"model"}) for rule in rules() if "record" in rule}
    return own | recorded | OTHERS


def rules() -> list[dict[str, Any]]:
    """Recorded and alerting ones, of all files."""
    return [
        rule
        for path in sorted(RULES.glob("*.yaml"))
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    ]


def _labels_of_registry() -> dict[str, frozenset[str]]:
    metrics = Metrics()
    named = {
        getattr(metric, "_name", ""): frozenset(getattr(metric, "_labelnames", ()))
        for metric in vars(metrics).values()
    }
    found = {}
    for name, series in families().items():
        for one in series:
            extra = {"le"} if one.endswith("_bucket") else set()
            found[one] = TARGET | named.get(name, frozenset()) | extra
    return found
