"""What an accelerator does, as metrics."""

from typing import Literal

from engine.lazy import DeviceStats
from observability.metrics import Metrics


class DeviceMetrics:
    """Of one model. On a CPU nothing is counted."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self._metrics, self._model = metrics, model
        self._captures = self._failed = self._evictions = 0  # counted so far

    def count_step(self, tokens: int, launch: Literal["replay", "eager"] | None) -> None:
        """`tokens`: the padded total of the step."""
        if launch == "replay":
            self._metrics.graph_replays.labels(self._model, str(tokens)).inc()
        elif launch == "eager":
            self._metrics.graph_misses.labels(self._model).inc()

    def set_stats(self, stats: DeviceStats | None) -> None:
        if stats is None:
            return
        metrics, model = self._metrics, self._model
        metrics.graph_captures.labels(model).inc(stats.captures - self._captures)
        metrics.graph_capture_failures.labels(model).inc(stats.failed_captures - self._failed)
        metrics.graph_evictions.labels(model).inc(stats.evictions - self._evictions)
        self._captures, self._failed = stats.captures, stats.failed_captures
        self._evictions = stats.evictions
        metrics.graphs.labels(model).set(stats.graphs)
        metrics.graph_bytes.labels(model).set(stats.graph_bytes)
        metrics.device_used_bytes.labels(model).set(stats.used_bytes)
        metrics.device_total_bytes.labels(model).set(stats.total_bytes)
