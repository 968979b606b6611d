"""docs/observability.md, its table from the metrics: `python -m cli.observability_page`."""

from observability.metrics import Described, Metrics

_HEAD = """# Metrics, logs and traces

The table is written by `make docs` from `observability/metrics.py`; a test holds it true.
Dashboards and alerts are in [deploy/](../deploy), what to do about an alert in
[operations.md](operations.md).

## Logs

One JSON object a line on stdout. Each request has one line, `"event":"request"`: its id, route,
status, model, the id of its key (`kid`, never the key), inputs, tokens, `duration_ms`, and
`stages_ms`, the same stages as in the `Server-Timing` header and in
`florilege_stage_duration_seconds`. No line holds a text or a vector. Of requests that are refused
(429, 503) ten lines a second are written; `unlogged` in the next line that is written counts the
others, and so does `florilege_unlogged_requests_total`.

What a library tells is there as the template of its message, and an exception as its class and
place: what either was about may be what a client sent. A log that nobody reads, or whose disk is
full, holds up no request: 8,192 lines wait, and those that find no room or cannot be written are
dropped and counted, `florilege_log_lines_dropped_total`.

## Traces

Off unless `--trace-endpoint` names a collector that takes OTLP over HTTP, such as
`http://collector:4318`; it needs `pip install 'florilege[otel]'`. Give it to gateways and workers
alike. What else an exporter needs, it reads from the standard variables:
`OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_CERTIFICATE`, `OTEL_RESOURCE_ATTRIBUTES`
(`extraEnv` of the Helm chart).

| span | where | is |
|---|---|---|
| `POST /v1/embeddings` | gateway | the request; a child of the caller's span, where there is one |
| `job` | worker | a child of the request: one of its jobs, from submission to its answer |
| `batch MODEL` | worker | what ran together; linked with the requests and jobs that are traced |

Whoever sends `traceparent` decides whether a request is traced: a proxy before the gateways
should set or remove it. Of the others `--trace-ratio` are, 1 % by default. Attributes are those
of the access line and figures of batches; neither a text nor a key is in any, and `tracestate` is
not kept. A traced request's line has its `trace_id`, and so have latencies as exemplars, for who
asks for OpenMetrics: Prometheus does, with `--enable-feature=exemplar-storage`.

## Metrics

On the admin port, `/metrics`: a gateway's 8001, a worker's 8002. No label holds what a client
sent: models are those that are served, routes are templates. Series of a model exist from its
first second, at zero, but those by bucket. Those of requests, queues and live workers are
gateways' alone. Every gateway tells the gauges of queues, of the same Redis: `max by (model, lane)
(florilege_queue_tokens)`. The share of padding is `rate(florilege_padding_tokens_total[5m]) /
rate(florilege_batch_tokens_sum[5m])`. GPUs are told of where a model runs on one and
`nvidia-ml-py` is installed (extra `gpu`): all that the worker may see, by their number on its
host; in a cluster NVIDIA's DCGM exporter tells more. What the process itself uses is in
`process_*`.

| metric | kind | labels | meaning |
|---|---|---|---|
"""


def observability_page() -> str:
    return _HEAD + "".join(_row(metric) for metric in Metrics().described)


def _row(metric: Described) -> str:
    labels = ", ".join(metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.text} |\n"


if __name__ == "__main__":
    print(observability_page(), end="")
