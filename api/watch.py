"""What a gateway tells of its models, kept true: gauges, readiness, tokenizers built ahead."""

import asyncio
import contextlib
from dataclasses import fields
from typing import Any, Literal

from api.catalog import Catalog
from api.errors import CASES
from checkpoint.spec import ModelSpec
from observability.logs import get_logger, place_of
from observability.metrics import Metrics
from transport.messages import JobError
from transport.protocols import JobClient

ReadyWhen = Literal["any", "every", "redis"]
# What requests of a model may come to, so that the first failure of each kind is seen as one.
_RERANK_ROUTES = ("/v1/rerank", "/v1/score")
_OUTCOMES = {(200, ""), *((case.status, case.type) for case in CASES.values() if case.status > 499)}
# Workers that differ in nothing but these give the same vectors.
_ASIDE = frozenset({"runtime", "aliases", "matryoshka", "max_tokens_source", "shard_tokens"})


class ModelWatch:
    """`refresh` before the first request, then `run`."""

    def __init__(self, catalog: Catalog, client: JobClient, metrics: Metrics) -> None:
        self._catalog = catalog
        self._client = client
        self._metrics = metrics
        self.live_workers: dict[str, int] = {}  # of every known model, as of the last refresh
        self._variants: dict[str, list[dict[str, Any]]] = {}  # by model: the one last heard is last

    async def run(self, period_s: float = 1.0) -> None:
        """Refresh until cancelled."""
        while True:
            try:
                await self.refresh()
            except Exception as error:
                get_logger().warning("watch_failed", **place_of(error))
            await asyncio.sleep(period_s)

    async def refresh(self) -> None:
        served = await self._catalog.models()
        for name in served.keys() - self.live_workers.keys():
            self._metrics.prime(name)
            task = served[name].spec.task
            vectors = ("/v1/embeddings",) if task == "embed" else ()
            self._metrics.prime_requests(name, task, (*vectors, *_RERANK_ROUTES), _OUTCOMES)
            configured = name in self._catalog.overrides
            get_logger().info("model_known", model=name, configured=configured)
        for name in self.live_workers.keys() - served.keys():
            self._metrics.live_workers.remove(name)  # 0 would be an alert for ever
            self._metrics.capacity.remove(name)
            for lane in ("online", "bulk"):
                self._metrics.queue_tokens.remove(name, lane)
                self._metrics.queue_depth.remove(name, lane)
                self._metrics.queue_oldest_age.remove(name, lane)
                self._metrics.estimated_wait.remove(name, lane)
        for name, model in served.items():
            self._compare(model.spec, bool(self.live_workers.get(name) and model.live_workers))
        self.live_workers = {name: model.live_workers for name, model in served.items()}
        for name, model in served.items():
            self._metrics.live_workers.labels(name).set(self._client.live_workers(name))
            await self._observe_queue(name)
            with contextlib.suppress(JobError):  # nobody can tell: what was last known stands
                for lane, age_s in (await self._client.oldest_s(name)).items():
                    self._metrics.queue_oldest_age.labels(name, lane).set(age_s)
            with contextlib.suppress(JobError):  # not there yet: the next refresh tries again
                await self._catalog.entry(model.spec)  # so that no request waits for its tokenizer

    def lacking(self, ready_when: ReadyWhen) -> str | None:
        """Why requests should go elsewhere, if anything is lacking now."""
        live = [name for name in self.live_workers if self._client.live_workers(name)]
        if ready_when == "redis" or (live and ready_when == "any"):
            return None
        if not live:
            return "no model has a live worker"
        dead = sorted(self.live_workers.keys() - set(live))
        return f"no live worker: {', '.join(dead)}" if dead else None

    def _compare(self, spec: ModelSpec, live: bool) -> None:
        """Live workers that differ mix vectors that do not compare, and overwrite each other's
        announcement with every heartbeat: each is counted, and each variant told once."""
        variant = {f.name: getattr(spec, f.name) for f in fields(spec) if f.name not in _ASIDE}
        known = self._variants.setdefault(spec.id, [])
        if known and known[-1] == variant:
            return
        if known and live:
            self._metrics.model_changes.labels(spec.id).inc()
            if variant not in known:
                changed = sorted(name for name in variant if variant[name] != known[-1][name])
                get_logger().warning("model_changed", model=spec.id, fields=changed)
        self._variants[spec.id] = [*(v for v in known if v != variant), variant]

    async def _observe_queue(self, name: str) -> None:
        online = await self._client.backlog(name, "online")
        both = await self._client.backlog(name, "bulk")
        speed = both.tokens_per_s or 0.0
        self._metrics.capacity.labels(name).set(speed)
        for lane, ahead in (("online", online), ("bulk", both)):
            wait_s = ahead.tokens / speed if speed else 0.0
            self._metrics.estimated_wait.labels(name, lane).set(wait_s)
        for lane, tokens, jobs in (
            ("online", online.tokens, online.jobs),
            ("bulk", both.tokens - online.tokens, both.jobs - online.jobs),
        ):
            self._metrics.queue_tokens.labels(name, lane).set(tokens)
            self._metrics.queue_depth.labels(name, lane).set(jobs)
