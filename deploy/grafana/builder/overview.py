"""What callers notice: rate, errors, duration, and what is left of the objectives."""

from deploy.grafana.builder.dashboard import Dashboard, Row
from deploy.grafana.builder.expressions import (
    BOTH,
    MODEL,
    PROCESS,
    buckets,
    mean,
    quantile,
    rate,
    ratio,
    shared,
)
from deploy.grafana.builder.panel import Panel, Query, percentiles

# As in the rules: without probes and the admin API.
_ROUTES = 'route=~"(/v1|/v2)?/(embeddings|rerank|score|models).*"'
_API = f"{BOTH}, {_ROUTES}"
_FAILED = f'{_API}, code=~"5.."'
_COUNTED = f'{_API}, code!~"4.."'  # what a caller did wrong is no failure of ours
_SMALL = f'{_API}, size="small"'
_NO_REQUEST = "No request in this time"
_WITHIN = "scalar(florilege:latency:objective)"
_ANSWERED = "scalar(florilege:availability:objective)"


def _over_range(where: str) -> str:
    return f"sum(increase(florilege_requests_total{{{where}}}[$__range]))"


def _failed() -> str:
    """Without a number where nothing was asked."""
    return f"{_over_range(_FAILED)} / ({_over_range(_COUNTED)} > 0)"


def _burn(ratio_name: str, objective: str) -> tuple[Query, ...]:
    """1: the error budget is used up exactly at the end of its period."""
    return tuple(
        Query(
            f"max by (model) ({ratio_name}_rate{window}{{{MODEL}}}) / (1 - {objective})",
            f"{{{{model}}}} over {window}",
        )
        for window in ("1h", "6h", "3d")
    )


GLANCE = Row(
    "At a glance",
    (
        Panel(
            "Requests",
            "Answered requests a second, all routes and codes.",
            "reqps",
            (Query(rate("requests_total")),),
            _NO_REQUEST,
            kind="stat",
        ),
        Panel(
            "Availability",
            "Share of requests in the time shown that were not answered with 5xx. Refusals by "
            "admission are 503 and count as failed; 4xx do not count at all.",
            "percentunit",
            (Query(f"1 - {_failed()}"),),
            _NO_REQUEST,
            kind="stat",
            most=1,
            steps=((None, "red"), (0.999, "green")),
        ),
        Panel(
            "Error budget left",
            "Of what the availability objective allows to fail in the time shown. Below 0: the "
            "objective was missed.",
            "percentunit",
            (Query(f"1 - {_failed()} / (1 - {_ANSWERED})"),),
            _NO_REQUEST,
            kind="stat",
            most=1,
            steps=((None, "red"), (0, "orange"), (0.5, "green")),
        ),
        Panel(
            "p99 latency",
            "99 of 100 requests were answered within this time, receipt to last byte.",
            "s",
            (Query(quantile(0.99, "request_duration_seconds", where=_API)),),
            _NO_REQUEST,
            kind="stat",
        ),
        Panel(
            "Live workers",
            "Workers whose heartbeat gateways see, summed over models.",
            "short",
            (Query(f"sum({shared('live_workers', 'model')})"),),
            "No gateway knows a model",
            kind="stat",
            steps=((None, "red"), (1, "green")),
        ),
        Panel(
            "In flight",
            "Requests that are being answered now.",
            "short",
            (Query(f"sum(florilege_inflight{{{BOTH}}})"),),
            "No gateway knows a model",
            kind="stat",
        ),
    ),
)

REQUESTS = Row(
    "Requests",
    (
        Panel(
            "Requests by route",
            "Answered requests a second. A route is a template; unknown paths are `other`.",
            "reqps",
            (Query(rate("requests_total", "route"), "{{route}}"),),
            _NO_REQUEST,
            stacked=True,
        ),
        Panel(
            "Requests by code",
            "Answered requests a second by HTTP status. 499: the client left before its answer.",
            "reqps",
            (Query(f"{rate('requests_total', 'code')} > 0", "{{code}}"),),
            _NO_REQUEST,
            stacked=True,
        ),
        Panel(
            "Share of failed requests",
            "5xx among all but 4xx, by model.",
            "percentunit",
            (
                Query(
                    ratio(
                        rate("requests_total", "model", _FAILED),
                        rate("requests_total", "model", _COUNTED),
                    ),
                    "{{model}}",
                ),
            ),
            _NO_REQUEST,
            most=1,
        ),
        Panel(
            "Latency",
            "Receipt to last byte, all requests of the API.",
            "s",
            percentiles("request_duration_seconds", (0.5, 0.9, 0.99), where=_API),
            _NO_REQUEST,
        ),
        Panel(
            "Latency, how many each",
            "Requests by their duration.",
            "s",
            (Query(buckets("request_duration_seconds", _API)),),
            _NO_REQUEST,
            kind="heatmap",
        ),
        Panel(
            "Client retries",
            "Requests a second that an SDK said it sends again, by the number of that attempt.",
            "reqps",
            (Query(rate("client_retries_total", "retry"), "attempt {{retry}}"),),
            "No gateway knows a model",
            stacked=True,
        ),
    ),
)

STAGES = Row(
    "Where the time goes",
    (
        Panel(
            "Mean time by stage",
            "The stages follow one another: their sum is about the mean latency. `queue` waits "
            "for a batch, `infer` is the device, `reply` the way between gateway and worker.",
            "s",
            (Query(mean("stage_duration_seconds", "stage"), "{{stage}}"),),
            _NO_REQUEST,
            stacked=True,
        ),
        Panel(
            "p99 by stage",
            "99 of 100 requests spent less in that stage.",
            "s",
            (Query(quantile(0.99, "stage_duration_seconds", "stage"), "{{stage}}"),),
            _NO_REQUEST,
        ),
        Panel(
            "Small requests within 250 ms",
            "Share of answers of at most 1,024 tokens that took no longer: the latency objective.",
            "percentunit",
            (
                Query(
                    ratio(
                        rate("request_duration_seconds_bucket", "model", f'{_SMALL}, le="0.25"'),
                        rate("request_duration_seconds_count", "model", _SMALL),
                    ),
                    "{{model}}",
                ),
                Query("florilege:latency:objective", "objective"),
            ),
            _NO_REQUEST,
            most=1,
        ),
    ),
)

OBJECTIVES = Row(
    "Objectives and work done",
    (
        Panel(
            "Burn rate of availability",
            "How fast the error budget is used: at 1 it lasts for exactly its period. Pages at "
            "14.4 over an hour or 6 over six hours, a ticket at 1 over three days.",
            "short",
            _burn("florilege:requests:failed_ratio", _ANSWERED),
            _NO_REQUEST,
            steps=((None, "green"), (1, "orange"), (14.4, "red")),
        ),
        Panel(
            "Burn rate of latency",
            "The same for small requests that took longer than 250 ms.",
            "short",
            _burn("florilege:requests:slow_ratio", _WITHIN),
            _NO_REQUEST,
            steps=((None, "green"), (1, "orange"), (14.4, "red")),
        ),
        Panel(
            "Alerts that fire",
            "Of the rules in deploy/prometheus/rules/alerts.yaml.",
            "short",
            (
                Query(
                    'sum by (alertname) (ALERTS{alertname=~"Florilege.*", alertstate="firing"})',
                    "{{alertname}}",
                ),
            ),
            "No alert fires",
        ),
        Panel(
            "Tokens",
            "Tokens of answered requests a second, by what was asked for.",
            "si:tok/s",
            (Query(rate("tokens_total", "model, kind"), "{{model}} {{kind}}"),),
            _NO_REQUEST,
            stacked=True,
        ),
        Panel(
            "Inputs",
            "Texts and pairs of answered requests a second.",
            "si:inputs/s",
            (Query(rate("inputs_total", "model, kind"), "{{model}} {{kind}}"),),
            _NO_REQUEST,
            stacked=True,
        ),
        Panel(
            "Tokens a request",
            "How large requests are.",
            "si:tok",
            percentiles("request_tokens", (0.5, 0.9, 0.99)),
            _NO_REQUEST,
        ),
        Panel(
            "Truncated inputs",
            "Share of inputs that were cut to the model's limit.",
            "percentunit",
            (
                Query(
                    ratio(
                        rate("truncated_inputs_total", "model"),
                        rate("inputs_total", "model"),
                    ),
                    "{{model}}",
                ),
            ),
            _NO_REQUEST,
            most=1,
        ),
        Panel(
            "Versions",
            "Processes by version: more than one while an upgrade is under way.",
            "short",
            (Query(f"count by (version) (florilege_build_info{{{PROCESS}}})", "{{version}}"),),
            "No process is scraped",
            stacked=True,
        ),
    ),
)

OVERVIEW = Dashboard(
    "overview",
    "Overview",
    "Rate, errors and duration of requests, and what is left of the objectives.",
    (GLANCE, REQUESTS, STAGES, OBJECTIVES),
)
