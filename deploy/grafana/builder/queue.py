"""What waits, what was refused, how full batches are, and what was delivered again."""

from deploy.grafana.builder.dashboard import Dashboard, Row
from deploy.grafana.builder.expressions import BOTH, buckets, mean, rate, ratio, shared
from deploy.grafana.builder.panel import Panel, Query, percentiles

_NO_MODEL = "No gateway knows a model"
_NO_BATCH = "No batch ran in this time"
_NO_WORKER = "No worker is scraped"
_MODEL_LANE = "{{model}} {{lane}}"

BACKLOG = Row(
    "Backlog",
    (
        Panel(
            "Tokens waiting or running",
            "By model and lane; every gateway tells the same. What workers are scaled by.",
            "si:tok",
            (Query(shared("queue_tokens"), _MODEL_LANE),),
            _NO_MODEL,
            stacked=True,
        ),
        Panel(
            "Jobs waiting or running",
            "By model and lane. A queue takes 10,000 at most.",
            "short",
            (Query(shared("queue_depth"), _MODEL_LANE),),
            _NO_MODEL,
            stacked=True,
        ),
        Panel(
            "Age of the oldest job",
            "Waiting or running. Near the deadline of requests, answers come too late.",
            "s",
            (Query(shared("queue_oldest_age_seconds"), _MODEL_LANE),),
            _NO_MODEL,
            steps=((None, "green"), (30, "red")),
        ),
        Panel(
            "Estimated wait",
            "Backlog by capacity: admission refuses above --max-queue-s or a request's deadline.",
            "s",
            (Query(shared("estimated_wait_seconds"), _MODEL_LANE),),
            _NO_MODEL,
        ),
        Panel(
            "Capacity and demand",
            "Tokens a second that live workers were measured to do, and that callers asked for.",
            "si:tok/s",
            (
                Query(shared("capacity_tokens_per_second", "model"), "{{model}} capacity"),
                Query(rate("tokens_total", "model"), "{{model}} demand"),
            ),
            _NO_MODEL,
        ),
        Panel(
            "Requests in flight",
            "By model, in all gateways.",
            "short",
            (Query(f"sum by (model) (florilege_inflight{{{BOTH}}})", "{{model}}"),),
            _NO_MODEL,
            stacked=True,
        ),
    ),
)

LOST = Row(
    "Refused and dropped",
    (
        Panel(
            "Refused by admission",
            "Requests a second. `queue`: the wait is too long; `deadline`: longer than the "
            "request has; `full`: the queue or the memory of Redis is.",
            "reqps",
            (Query(rate("shed_total", "model, reason"), "{{model}} {{reason}}"),),
            _NO_MODEL,
            stacked=True,
        ),
        Panel(
            "Share refused",
            "Of all requests of the model.",
            "percentunit",
            (
                Query(
                    ratio(rate("shed_total", "model"), rate("requests_total", "model")),
                    "{{model}}",
                ),
            ),
            "No request in this time",
            most=1,
        ),
        Panel(
            "Expired and cancelled jobs",
            "A second. Expired: past their deadline before they ran. Cancelled: the client left "
            "before they ran. Neither costs device time.",
            "ops",
            (
                Query(rate("expired_total", "model"), "{{model}} expired"),
                Query(rate("cancelled_total", "model"), "{{model}} cancelled"),
            ),
            _NO_WORKER,
        ),
    ),
)

BATCHES = Row(
    "Batches",
    (
        Panel(
            "Batches",
            "A second, by model.",
            "ops",
            (Query(rate("batch_tokens_count", "model"), "{{model}}"),),
            _NO_WORKER,
            stacked=True,
        ),
        Panel(
            "Tokens a batch",
            "Padding included.",
            "si:tok",
            percentiles("batch_tokens", (0.5, 0.99), "model"),
            _NO_BATCH,
        ),
        Panel(
            "Tokens a batch, how many each",
            "Batches by their size, all models.",
            "si:tok",
            (Query(buckets("batch_tokens")),),
            _NO_BATCH,
            kind="heatmap",
        ),
        Panel(
            "Sequences a batch",
            "How many texts share a step.",
            "short",
            percentiles("batch_size", (0.5, 0.99), "model"),
            _NO_BATCH,
        ),
        Panel(
            "Fill of batches",
            "Mean tokens of a batch by the tokens it may hold. Low when little waits: batches "
            "are never kept waiting for more.",
            "percentunit",
            (
                Query(
                    f"{mean('batch_tokens', 'model')}"
                    f" / avg by (model) (florilege_batch_budget_tokens{{{BOTH}}})",
                    "{{model}}",
                ),
            ),
            _NO_BATCH,
            most=1,
        ),
        Panel(
            "Padding",
            "Share of dummy tokens: the tail up to a graph's bucket. 0 on a CPU.",
            "percentunit",
            (
                Query(
                    ratio(
                        rate("padding_tokens_total", "model"),
                        rate("batch_tokens_sum", "model"),
                    ),
                    "{{model}}",
                ),
            ),
            _NO_BATCH,
            most=1,
        ),
        Panel(
            "Device time of a batch",
            "From launch to the last row.",
            "s",
            percentiles("batch_duration_seconds", (0.5, 0.99), "model"),
            _NO_BATCH,
        ),
        Panel(
            "Jobs received",
            "By workers, a second. A job is a request or a shard of one.",
            "ops",
            (Query(rate("jobs_total", "model, lane"), _MODEL_LANE),),
            _NO_WORKER,
            stacked=True,
        ),
    ),
)

AGAIN = Row(
    "Delivered again",
    (
        Panel(
            "Redelivered jobs",
            "A second: their first worker died, was paused, or handed them back as it left.",
            "ops",
            (Query(rate("redelivered_total", "model"), "{{model}}"),),
            _NO_WORKER,
        ),
        Panel(
            "Dead letters",
            "Jobs given up in the time shown, as two workers died with them.",
            "short",
            (
                Query(
                    f"sum by (model) (increase(florilege_dead_lettered_total{{{BOTH}}}[$__range]))",
                    "{{model}}",
                ),
            ),
            _NO_WORKER,
            steps=((None, "green"), (1, "red")),
        ),
        Panel(
            "Submitted again, answered twice",
            "A second. Submitted again: Redis lost its memory. Late and duplicate answers are "
            "what redelivery leaves behind: harmless.",
            "ops",
            (
                Query(rate("resubmitted_total", "model"), "{{model}} submitted again"),
                Query(rate("late_finishes_total", "model"), "{{model}} late answers"),
                Query(
                    rate("duplicate_replies_total", where='instance=~"$instance"'),
                    "duplicate answers",
                ),
            ),
            "No process is scraped",
        ),
    ),
)

QUEUE = Dashboard(
    "queue",
    "Queue and batching",
    "What waits, what was refused, how full batches are, and what was delivered again.",
    (BACKLOG, LOST, BATCHES, AGAIN),
)
