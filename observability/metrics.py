"""Every metric of the product: name, unit, labels, buckets. No other file names one.

Labels never hold what a client sent: models are resolved first, routes are templates.
"""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, Self

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.metrics import MetricWrapperBase

STAGES = ("auth", "tokenize", "queue", "infer", "reply", "encode")
LANES = ("online", "bulk")
RETRIES = ("1", "2", "more")
SIZES = ("small", "large", "none")
SMALL_TOKENS = 1_024  # what the objective for the latency is given for
LIMITS = ("rpm", "tpm", "concurrency", "daily", "monthly")
NO_MODEL = "none"  # the request failed before its model was known

_REQUEST_SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0),
)
_SHORT_SECONDS = tuple(0.0001 * 2.5**i for i in range(14))  # 0.1 ms to 15 s
_POWERS_OF_TWO = tuple(float(2**i) for i in range(18))  # 1 to 131,072

# A tenth of what a scrape renders, on the event loop, and nobody asks for it.
disable_created_metrics()  # type: ignore[no-untyped-call]


class _Known(MetricWrapperBase):
    """Finds the series of labels that were seen before at once, and makes no check of them.

    Most of what it costs to count is what the library does to find them.
    """

    _found: dict[tuple[str, ...], Self]

    def labels(self, *labelvalues: Any, **labelkwargs: Any) -> Self:
        if labelkwargs:
            return super().labels(*labelvalues, **labelkwargs)
        try:
            return self._found[labelvalues]
        except AttributeError:
            self._found = {}
        except KeyError:
            pass
        child = self._found[labelvalues] = super().labels(*labelvalues, **labelkwargs)
        return child

    def remove(self, *labelvalues: Any) -> None:
        super().remove(*labelvalues)
        self._found = {}  # what is found again must be the series that is told


class _Counter(_Known, Counter):
    pass


class _Gauge(_Known, Gauge):
    pass


class _Histogram(_Known, Histogram):
    pass


class Described(NamedTuple):
    name: str  # as it is queried; a histogram's series end with _bucket, _sum and _count
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    text: str


class Metrics:
    """The registry of one process. Built by the wiring, handed to whoever counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.described: list[Described] = []  # all of ours, in order
        ProcessCollector(registry=self.registry)  # process_*: memory, CPU time, open files
        self.requests = self._counter(
            "requests", "Answered requests", ("route", "model", "code", "error_type")
        )
        self.request_duration = self._histogram(
            "request_duration_seconds",
            "Receipt to last byte, probes and administration left out; "
            f"size none: an error, or no tokens; small: to {SMALL_TOKENS:,}",
            _REQUEST_SECONDS,
            ("route", "model", "size"),
        )
        self.client_retries = self._counter(
            "client_retries", "Requests that an SDK says it repeats", ("model", "retry")
        )
        self.unlogged_requests = self._counter(
            "unlogged_requests", "Refused requests without an access line: there were many", ()
        )
        self.log_lines_dropped = self._counter(
            "log_lines_dropped", "Lines that found no room, or could not be written", ()
        )
        self.stage_duration = self._histogram(
            "stage_duration_seconds", "Time in one stage", _SHORT_SECONDS, ("stage", "model")
        )
        self.tokens = self._counter("tokens", "Tokens of accepted requests", ("model", "kind"))
        self.inputs = self._counter("inputs", "Inputs of accepted requests", ("model", "kind"))
        self.truncated_inputs = self._counter("truncated_inputs", "Inputs cut to fit", ("model",))
        self.request_tokens = self._histogram(
            "request_tokens", "Tokens a request", _POWERS_OF_TWO, ("model",)
        )
        self.batch_tokens = self._histogram(
            "batch_tokens", "Tokens a batch, padding included", _POWERS_OF_TWO, ("model",)
        )
        self.batch_size = self._histogram(
            "batch_size", "Sequences a batch", _POWERS_OF_TWO, ("model",)
        )
        self.batch_duration = self._histogram(
            "batch_duration_seconds", "Time a batch keeps the device", _SHORT_SECONDS, ("model",)
        )
        self.padding_tokens = self._counter("padding_tokens", "Dummy tokens in batches", ("model",))
        self.queue_depth = self._gauge("queue_depth", "Jobs waiting or running", ("model", "lane"))
        self.queue_tokens = self._gauge(
            "queue_tokens", "Tokens waiting or running", ("model", "lane")
        )
        self.queue_oldest_age = self._gauge(
            "queue_oldest_age_seconds", "Of the oldest job waiting or running", ("model", "lane")
        )
        self.estimated_wait = self._gauge(
            "estimated_wait_seconds",
            "What admission expects a new job to wait; 0 until a speed is known",
            ("model", "lane"),
        )
        self.capacity = self._gauge(
            "capacity_tokens_per_second", "Of all live workers; 0 until it is known", ("model",)
        )
        self.live_workers = self._gauge(
            "live_workers", "Workers whose heartbeat was seen", ("model",)
        )
        self.model_changes = self._counter(
            "model_changes", "Announcements unlike the one before, of live workers", ("model",)
        )
        self.inflight = self._gauge("inflight", "Requests being answered", ("model",))
        self.shed = self._counter("shed", "Requests refused by admission", ("model", "reason"))
        self.jobs = self._counter(
            "jobs", "Jobs that a worker received, further deliveries too", ("model", "lane")
        )
        self.expired = self._counter("expired", "Jobs past their deadline", ("model",))
        self.cancelled = self._counter(
            "cancelled", "Jobs dropped before they ran: nobody waits", ("model",)
        )
        self.redelivered = self._counter(
            "redelivered", "Jobs that came to a worker a second time", ("model",)
        )
        self.resubmitted = self._counter(
            "resubmitted", "Jobs submitted again because Redis forgot them", ("model",)
        )
        self.dead_lettered = self._counter(
            "dead_lettered", "Jobs given up after they killed their workers", ("model",)
        )
        self.duplicate_replies = self._counter(
            "duplicate_replies", "Answers that nobody waited for any more", ()
        )
        self.unreadable_replies = self._counter(
            "unreadable_replies", "Answers that are none, or of another version", ()
        )
        self.late_finishes = self._counter(
            "late_finishes", "Answers to jobs that were answered or forgotten meanwhile", ("model",)
        )
        self.redis_reconnects = self._counter(
            "redis_reconnects", "Connections to Redis made anew", ()
        )
        self.redis_up = self._gauge("redis_up", "1: Redis answered lately", ("role",))
        self.redis_op_duration = self._histogram(
            "redis_op_duration_seconds",
            "From a command's call to its answer, blocking reads left out",
            _SHORT_SECONDS,
            ("op",),
        )
        self.loop_lag = self._histogram(
            "loop_lag_seconds", "How late the event loop wakes", _SHORT_SECONDS, ()
        )
        self.ratelimited = self._counter(
            "ratelimited", "Requests refused by the limit of a key or a project", ("limit",)
        )
        for limit in LIMITS:
            self.ratelimited.labels(limit)
        self.ratelimit_backend_errors = self._counter(
            "ratelimit_backend_errors", "Limits that Redis did not answer for", ()
        )
        self.ratelimit_local = self._gauge(
            "ratelimit_local", "1: limits are this gateway's share, for want of Redis", ()
        )
        self.budget_warnings = self._counter(
            "budget_warnings", "Requests beyond 80 % of a token budget", ("period",)
        )
        for period in ("daily", "monthly"):
            self.budget_warnings.labels(period)
        self.usage_flush_failures = self._counter(
            "usage_flush_failures", "Times that usage could not be written; it is kept", ()
        )
        self.usage_dropped_requests = self._counter(
            "usage_dropped_requests", "Requests that are missing from the usage for good", ()
        )
        self.key_revision = self._gauge(
            "key_revision", "Revision of the keys that requests are checked with", ()
        )
        self.key_refreshed = self._gauge(
            "key_refreshed_timestamp_seconds", "When the keys were last known to be up to date", ()
        )
        self.batch_bisect = self._counter("batch_bisect", "Batches split on failure", ("model",))
        self.oom = self._counter("oom", "Batches the device's memory was too small for", ("model",))
        self.batch_budget_tokens = self._gauge(
            "batch_budget_tokens", "Tokens a batch may hold, less after oom", ("model",)
        )
        self.graph_replays = self._counter(
            "graph_replays", "Steps replayed, by padded tokens", ("model", "bucket")
        )
        self.graph_misses = self._counter(
            "graph_misses", "Steps an accelerator ran without a graph", ("model",)
        )
        self.graph_captures = self._counter("graph_captures", "Graphs captured", ("model",))
        self.graph_capture_failures = self._counter(
            "graph_capture_failures", "Captures that failed", ("model",)
        )
        self.graph_evictions = self._counter(
            "graph_evictions", "Graphs given up for others", ("model",)
        )
        self.graphs = self._gauge("graphs", "Graphs that can be replayed", ("model",))
        self.graph_bytes = self._gauge("graph_bytes", "Device memory of graphs", ("model",))
        self.device_used_bytes = self._gauge(
            "device_used_bytes", "Memory of the model's accelerator in use, by anyone", ("model",)
        )
        self.device_total_bytes = self._gauge(
            "device_total_bytes", "Memory of the model's accelerator", ("model",)
        )
        self.gpu_memory_used_bytes = self._gauge(
            "gpu_memory_used_bytes", "In use on the GPU, by anyone", ("gpu",)
        )
        self.gpu_memory_reserved_bytes = self._gauge(
            "gpu_memory_reserved_bytes", "Kept by the GPU's driver and firmware", ("gpu",)
        )
        self.gpu_memory_total_bytes = self._gauge("gpu_memory_total_bytes", "Of the GPU", ("gpu",))
        self.gpu_utilization_ratio = self._gauge(
            "gpu_utilization_ratio", "Share of time in which any kernel ran", ("gpu",)
        )
        self.gpu_power_watts = self._gauge("gpu_power_watts", "Drawn by the GPU", ("gpu",))
        self.gpu_ecc_errors = self._counter(
            "gpu_ecc_errors", "Memory errors that ECC could not correct", ("gpu",)
        )
        self.non_finite = self._counter("non_finite", "Rows with NaN or infinity", ("model",))
        self.build_info = self._gauge("build_info", "Always 1", ("version",))
        self.misranked_known_pair = self._gauge(
            "misranked_known_pair",
            "1: a reranker that put a known pair in the wrong order",
            ("model",),
        )
        self.model_info = self._gauge(
            "model_info", "Always 1", ("model", "dtype", "device", "attention")
        )

    def prime(self, model: str) -> None:
        """Create the series of a model at zero, so that rate() sees the first failure.

        Those that a worker tells, and those of both sides.
        """
        for stage in STAGES:
            self.stage_duration.labels(stage, model)
        for lane in LANES:
            self.jobs.labels(model, lane)
        for metric in (
            *(self.batch_tokens, self.batch_size, self.batch_duration, self.padding_tokens),
            *(self.expired, self.cancelled, self.batch_bisect, self.non_finite),
            *(self.redelivered, self.dead_lettered, self.late_finishes),
            *(self.oom, self.graph_misses, self.graph_captures),
            *(self.graph_capture_failures, self.graph_evictions),
        ):
            metric.labels(model)

    def prime_requests(
        self, model: str, kind: str, routes: Iterable[str], outcomes: Iterable[tuple[int, str]]
    ) -> None:
        """The series that only gateways tell of a model: its requests, queue and live workers.

        A worker's zeros of them would hide that no gateway is there. `kind`: of its jobs;
        `outcomes`: status and type of error.
        """
        self.tokens.labels(model, kind)
        self.inputs.labels(model, kind)
        codes = [(str(status), error_type) for status, error_type in outcomes]
        for route in routes:
            for code, error_type in codes:
                self.requests.labels(route, model, code, error_type)
            for size in SIZES:
                self.request_duration.labels(route, model, size)
        for lane in LANES:
            for gauge in (self.queue_depth, self.queue_tokens, self.queue_oldest_age):
                gauge.labels(model, lane)
            self.estimated_wait.labels(model, lane)
        for reason in ("queue", "deadline", "full"):
            self.shed.labels(model, reason)
        for retry in RETRIES:
            self.client_retries.labels(model, retry)
        for metric in (
            *(self.live_workers, self.model_changes, self.capacity, self.inflight),
            *(self.request_tokens, self.truncated_inputs, self.resubmitted),
        ):
            metric.labels(model)

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        self.described.append(Described(f"florilege_{name}_total", "counter", labels, text))
        return _Counter(f"florilege_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge:
        self.described.append(Described(f"florilege_{name}", "gauge", labels, text))
        return _Gauge(f"florilege_{name}", text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], labels: tuple[str, ...]
    ) -> Histogram:
        self.described.append(Described(f"florilege_{name}", "histogram", labels, text))
        return _Histogram(
            f"florilege_{name}", text, labels, buckets=buckets, registry=self.registry
        )
