"""Redis as gateways and workers see it, and, where its exporter runs, as it sees itself."""

from deploy.grafana.builder.dashboard import Dashboard, Row
from deploy.grafana.builder.expressions import PROCESS, mean, own, quantile, rate, shared
from deploy.grafana.builder.panel import Panel, Query

_NO_REDIS = "No process with a Redis is scraped"
_NO_EXPORTER = "redis_exporter is not scraped"
_EXPORTER = "redis_exporter runs beside Redis where it is wanted"

OURS = Row(
    "As gateways and workers see it",
    (
        Panel(
            "Redis answers",
            "1: it answered this process within the last 5 s.",
            "none",
            (Query(own("redis_up", PROCESS), "{{instance}}"),),
            _NO_REDIS,
            most=1,
        ),
        Panel(
            "Connections made anew",
            "A second. Steady: something between cuts them.",
            "ops",
            (Query(rate("redis_reconnects_total", "instance", PROCESS), "{{instance}}"),),
            "No process is scraped",
        ),
        Panel(
            "Operations",
            "Commands and scripts a second; reads that wait for something are not among them.",
            "ops",
            (Query(rate("redis_op_duration_seconds_count", "op", PROCESS), "{{op}}"),),
            _NO_REDIS,
            stacked=True,
        ),
        Panel(
            "Mean time of an operation",
            "There and back. An idle Redis in the same zone answers well below 1 ms.",
            "s",
            (Query(mean("redis_op_duration_seconds", "op", PROCESS), "{{op}}"),),
            _NO_REDIS,
        ),
        Panel(
            "p99 of an operation",
            "Beyond 1 s a command is given up.",
            "s",
            (Query(quantile(0.99, "redis_op_duration_seconds", "op", PROCESS), "{{op}}"),),
            _NO_REDIS,
            steps=((None, "green"), (1, "red")),
        ),
        Panel(
            "p99 by process",
            "One process that is slow with a fast Redis: look at its event loop.",
            "s",
            (
                Query(
                    quantile(0.99, "redis_op_duration_seconds", "instance", PROCESS),
                    "{{instance}}",
                ),
            ),
            _NO_REDIS,
        ),
        Panel(
            "Jobs submitted again",
            "A second. Redis came back without its memory.",
            "ops",
            (Query(rate("resubmitted_total", "model"), "{{model}}"),),
            "No gateway knows a model",
        ),
        Panel(
            "Answers that cannot be read",
            "A second. Of another version, or written by somebody else.",
            "ops",
            (Query(rate("unreadable_replies_total", "instance", PROCESS), "{{instance}}"),),
            "No process is scraped",
        ),
        Panel(
            "Jobs in its streams",
            "Waiting or running, all models and lanes.",
            "short",
            (Query(f"sum({shared('queue_depth')})", "jobs"),),
            "No gateway knows a model",
        ),
    ),
)

ITS_OWN = Row(
    "As its exporter sees it",
    (
        Panel(
            "Memory",
            "Used, and what it may use. When it is full new jobs get 503, and answers still leave.",
            "bytes",
            (
                Query("redis_memory_used_bytes", "{{instance}} used"),
                Query("redis_memory_max_bytes > 0", "{{instance}} may use"),
            ),
            _NO_EXPORTER,
            empty_ok=_EXPORTER,
        ),
        Panel(
            "Clients",
            "Connected, and of these waiting for something.",
            "short",
            (
                Query("redis_connected_clients", "{{instance}} connected"),
                Query("redis_blocked_clients", "{{instance}} waiting"),
            ),
            _NO_EXPORTER,
            empty_ok=_EXPORTER,
        ),
        Panel(
            "Commands",
            "That it processed a second.",
            "ops",
            (
                Query(
                    "sum by (instance) (rate(redis_commands_processed_total[$__rate_interval]))",
                    "{{instance}}",
                ),
            ),
            _NO_EXPORTER,
            empty_ok=_EXPORTER,
        ),
        Panel(
            "Evicted keys",
            "A second. Anything but 0: maxmemory-policy is not noeviction, and jobs are lost.",
            "ops",
            (
                Query(
                    "sum by (instance) (rate(redis_evicted_keys_total[$__rate_interval]))",
                    "{{instance}}",
                ),
            ),
            _NO_EXPORTER,
            empty_ok=_EXPORTER,
        ),
    ),
)

REDIS = Dashboard(
    "redis",
    "Redis",
    "Redis as gateways and workers see it, and, where its exporter runs, as it sees itself.",
    (OURS, ITS_OWN),
)
