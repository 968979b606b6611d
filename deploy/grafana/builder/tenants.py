"""Who is refused and why, and what the store of keys and usage is doing.

Who uses how much is in the store (`florilege usage`): keys are no labels.
"""

from deploy.grafana.builder.dashboard import Dashboard, Row
from deploy.grafana.builder.expressions import BOTH, PROCESS, own, rate, ratio
from deploy.grafana.builder.panel import Panel, Query, percentiles

_NO_GATEWAY = "No gateway is scraped"
_NO_REQUEST = "No request in this time"

REFUSED = Row(
    "Refused",
    (
        Panel(
            "Refused by a limit",
            "Requests a second that were answered with 429, by the limit of the key or its "
            "project: requests or tokens a minute, concurrency, daily or monthly budget.",
            "reqps",
            (Query(rate("ratelimited_total", "limit", PROCESS), "{{limit}}"),),
            _NO_GATEWAY,
            stacked=True,
        ),
        Panel(
            "Share refused by a limit",
            "Of all requests.",
            "percentunit",
            (
                Query(
                    ratio(
                        rate("ratelimited_total", where=PROCESS),
                        rate("requests_total", where=PROCESS),
                    ),
                    "refused",
                ),
            ),
            _NO_REQUEST,
            most=1,
        ),
        Panel(
            "Unknown, expired and forbidden keys",
            "Requests a second that were answered with 401 or 403.",
            "reqps",
            (
                Query(
                    rate("requests_total", "code", f'{PROCESS}, code=~"401|403"'),
                    "{{code}}",
                ),
            ),
            "No such answer in this time",
            stacked=True,
        ),
        Panel(
            "Client errors",
            "Answers with 4xx a second, by type and code.",
            "reqps",
            (
                Query(
                    rate("requests_total", "code, error_type", f'{BOTH}, code=~"4.."'),
                    "{{code}} {{error_type}}",
                ),
            ),
            "No such answer in this time",
            stacked=True,
        ),
        Panel(
            "Beyond 80 % of a budget",
            "Requests a second of keys that have used most of their tokens.",
            "reqps",
            (Query(rate("budget_warnings_total", "period", PROCESS), "{{period}}"),),
            _NO_GATEWAY,
        ),
        Panel(
            "Retries after a refusal",
            "Requests a second that an SDK sends again. Near the rate of refusals: callers wait "
            "and come back, as they should.",
            "reqps",
            (Query(rate("client_retries_total", "retry"), "attempt {{retry}}"),),
            _NO_GATEWAY,
        ),
    ),
)

LIMITER = Row(
    "Limits and Redis",
    (
        Panel(
            "Gateways that limit alone",
            "1: Redis does not answer, so this gateway keeps to its share of each limit.",
            "none",
            (Query(own("ratelimit_local", PROCESS), "{{instance}}"),),
            _NO_GATEWAY,
            most=1,
        ),
        Panel(
            "Limits that Redis did not answer for",
            "Requests a second that were let through on the gateway's own account.",
            "reqps",
            (Query(rate("ratelimit_backend_errors_total", "instance", PROCESS), "{{instance}}"),),
            _NO_GATEWAY,
        ),
        Panel(
            "Time to check a key",
            "The stage `auth`. Keys are in memory: microseconds, whatever the store does.",
            "s",
            percentiles("stage_duration_seconds", (0.5, 0.99), where=f'{BOTH}, stage="auth"'),
            _NO_REQUEST,
        ),
    ),
)

STORE = Row(
    "Store of keys and usage",
    (
        Panel(
            "Revision of the keys",
            "That each gateway checks requests with. They differ for a few seconds after a "
            "change, no longer.",
            "none",
            (
                # A worker has no keys and stands at 0.
                Query(
                    f"{own('key_revision', PROCESS)}"
                    f" and {own('key_refreshed_timestamp_seconds', PROCESS)} > 0",
                    "{{instance}}",
                ),
            ),
            _NO_GATEWAY,
        ),
        Panel(
            "Age of the keys",
            "Since a gateway last knew that its keys are up to date. A revoked key works for as "
            "long.",
            "s",
            (
                Query(
                    f"time() - ({own('key_refreshed_timestamp_seconds', PROCESS)} > 0)",
                    "{{instance}}",
                ),
            ),
            _NO_GATEWAY,
            steps=((None, "green"), (30, "red")),
        ),
        Panel(
            "Usage not written",
            "Attempts a second that failed. What they held is kept and written later.",
            "ops",
            (Query(rate("usage_flush_failures_total", "instance", PROCESS), "{{instance}}"),),
            _NO_GATEWAY,
        ),
        Panel(
            "Usage lost",
            "Requests in the time shown that will never be in the usage, as too much waited for "
            "the store.",
            "short",
            (
                Query(
                    "sum by (instance) "
                    f"(increase(florilege_usage_dropped_requests_total{{{PROCESS}}}[$__range]))",
                    "{{instance}}",
                ),
            ),
            _NO_GATEWAY,
            steps=((None, "green"), (1, "red")),
        ),
        Panel(
            "Log lines left out",
            "A second. While requests are refused only some of their lines are written; the number "
            "of others is in the next one. Dropped: the disk is full, or nobody reads the log.",
            "ops",
            (
                Query(rate("unlogged_requests_total", "instance", PROCESS), "{{instance}}"),
                Query(rate("log_lines_dropped_total", "instance", PROCESS), "{{instance}} dropped"),
            ),
            _NO_GATEWAY,
        ),
    ),
)

TENANTS = Dashboard(
    "tenants",
    "Tenants and limits",
    "Who is refused and why, and what the store of keys and usage is doing. "
    "Who uses how much is in the store: `florilege usage`.",
    (REFUSED, LIMITER, STORE),
)
