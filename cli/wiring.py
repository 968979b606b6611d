"""The only builder: settings in, running objects out. Worker and engine are imported when needed,
so that a gateway starts without torch installed."""

import asyncio
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING
from uuid import uuid4

from fastapi import FastAPI
from prometheus_client import Counter
from pydantic import SecretStr

from api.admin.administration import Administration
from api.admin.app import create_admin_app
from api.app import create_app
from api.gateway import Gateway, GatewayConfig
from api.model_config import ModelConfigError, read_model_config
from api.service import Service
from api.watch import ModelWatch
from auth.authenticator import Authenticator
from auth.limits.failover import FailoverLimits
from auth.limits.memory import MemoryLimits
from auth.limits.quota import Quotas
from auth.limits.redis import RedisLimits
from auth.limits.store import LimitStore
from auth.nudge import LocalNudge, Nudge
from auth.pepper import Peppers, load_peppers
from auth.store import KeyStore
from auth.usage.recorder import UsageEvent, UsageRecorder
from auth.usage.store import UsageStore
from auth.watch import ALONE_POLL_S, POLL_S, KeyWatch
from checkpoint.errors import CheckpointError
from checkpoint.spec import ModelSpec
from cli.loading import Load, load_model
from cli.settings import Settings, SettingsError, flag_of, variable_of
from observability.health import Health
from observability.logs import count_dropped_lines
from observability.metrics import Metrics
from observability.tracing import UNTRACED, Tracing
from transport.memory import MemoryTransport
from transport.protocols import JobClient, JobConsumer
from transport.redis.connections import Connections, RedisConfig
from transport.redis.events import TransportEvent
from transport.redis.nudge import RedisNudge
from transport.redis.scripts import LineScripts

if TYPE_CHECKING:
    from transport.redis.client import RedisJobClient
    from transport.redis.consumer import RedisJobConsumer
    from worker.engine_thread import EngineThread
    from worker.worker import LoadedModel, Worker, WorkerConfig

VERSION = version("florilege")


@dataclass(frozen=True, eq=False)
class Observers:
    """What gateway and worker of one process both report to."""

    metrics: Metrics
    health: Health
    tracing: Tracing = UNTRACED


@dataclass(frozen=True, eq=False)
class Access:
    """Who may call, and how much. Whoever opens the doors runs it and closes it."""

    authenticator: Authenticator
    watch: KeyWatch
    recorder: UsageRecorder
    limits: LimitStore
    admin_api: FastAPI
    stores: tuple[KeyStore, UsageStore]
    connections: Connections | None  # those of limits and nudge

    async def close(self) -> None:
        for store in self.stores:
            await store.close()
        if self.connections is not None:
            await self.connections.close()


@dataclass(frozen=True, eq=False)
class GatewaySide:
    app: FastAPI
    gateway: Gateway
    watch: ModelWatch


@dataclass(frozen=True, eq=False)
class Embedded:
    """Gateway and worker in one process, over memory."""

    app: FastAPI
    gateway: Gateway
    watch: ModelWatch
    transport: MemoryTransport
    workers: "list[Worker]"
    thread: "EngineThread"
    specs: list[ModelSpec]


@dataclass(frozen=True, eq=False)
class WorkerSide:
    name: str
    workers: "list[Worker]"
    consumer: "RedisJobConsumer"
    thread: "EngineThread"
    specs: list[ModelSpec]


def build_observers(tracing: Tracing = UNTRACED) -> Observers:
    observers = Observers(Metrics(), Health(), tracing)
    observers.metrics.build_info.labels(VERSION).set(1)
    count_dropped_lines(observers.metrics.log_lines_dropped.inc)
    return observers


def build_tracing(settings: Settings, service: str) -> Tracing:
    """`service`: what traces call this process. Raises SettingsError."""
    if settings.trace_endpoint is None:
        return UNTRACED
    try:
        from observability.spans import trace_to
    except ImportError:
        flag = flag_of("trace_endpoint")
        raise SettingsError(f"{flag} needs OpenTelemetry: pip install 'florilege[otel]'") from None
    return trace_to(settings.trace_endpoint, settings.trace_ratio, service, VERSION)


def build_access(settings: Settings, observers: Observers, shared: bool) -> Access:
    """Who may call, and how much; `await access.watch.refresh()` before the first request.

    `shared`: with the other gateways at the same Redis, rather than in this process alone. Raises
    SettingsError and UnsupportedRedis.
    """
    metrics = observers.metrics
    authenticator, store = Authenticator(), KeyStore(settings.database)
    usage = UsageStore(settings.database)
    recorder = UsageRecorder(usage, on_event=partial(_count_usage, metrics))
    connections, poll_s = None, ALONE_POLL_S
    nudge: Nudge = LocalNudge()
    limits: LimitStore = MemoryLimits(recorder.used)
    if shared:
        connections = Connections(redis_config(settings), partial(count_event, metrics))
        limits = _shared_limits(connections, recorder, metrics)
        nudge, poll_s = RedisNudge(connections), POLL_S
    watch = KeyWatch(
        authenticator, store, lambda: read_peppers(settings), nudge=nudge, poll_s=poll_s
    )
    metrics.key_revision.set_function(lambda: authenticator.snapshot.revision)
    metrics.key_refreshed.set_function(lambda: watch.refreshed_at)

    async def changed() -> None:
        try:
            await watch.refresh()  # the gateway that was asked follows before it answers
        finally:
            await nudge.send()

    administration = Administration(
        store, usage, lambda: read_peppers(settings), changed, recorder.seen
    )
    return Access(
        authenticator=authenticator,
        watch=watch,
        recorder=recorder,
        limits=limits,
        admin_api=create_admin_app(administration, authenticator, metrics, VERSION),
        stores=(store, usage),
        connections=connections,
    )


def _shared_limits(
    connections: Connections, recorder: UsageRecorder, metrics: Metrics
) -> FailoverLimits:
    shared = RedisLimits(LineScripts(connections.unrepeated()), recorder.used)
    share = MemoryLimits(recorder.used, share_of=lambda: shared.gateways)
    limits = FailoverLimits(shared, share, metrics.ratelimit_backend_errors.inc)
    metrics.ratelimit_local.set_function(lambda: limits.local)
    return limits


def _count_usage(metrics: Metrics, event: UsageEvent) -> None:
    counters = {
        "flush_failed": metrics.usage_flush_failures,
        "dropped": metrics.usage_dropped_requests,
    }
    counters[event].inc()


def read_peppers(settings: Settings) -> Peppers:
    """Those given, else the file of the data directory. Raises the errors of a pepper."""
    if settings.pepper is not None:
        return Peppers.parse(settings.pepper.get_secret_value())
    return load_peppers(settings.pepper_path)


async def build_embedded(
    settings: Settings, access: Access, observers: Observers, load: Load = load_model
) -> Embedded:
    """Load the models and put everything together.

    Raises CheckpointError, EngineError, SettingsError and ModelConfigError.
    """
    from worker.engine_thread import EngineThread
    from worker.worker import WorkerConfig

    thread = EngineThread(settings.watchdog_s)
    models = await load_models(settings, thread, load)
    transport = MemoryTransport()
    config = WorkerConfig(
        max_batch_sequences=settings.max_batch_sequences, tracing=observers.tracing
    )
    workers = build_workers(models, transport, thread, config, observers.metrics)
    side = build_gateway(settings, transport, access, observers)
    specs = [model.spec for model in models]
    for name in side.gateway.catalog.overrides.keys() - {spec.id for spec in specs}:
        raise ModelConfigError(f"{settings.model_config_}: no model {name!r} is served")
    return Embedded(side.app, side.gateway, side.watch, transport, workers, thread, specs)


def build_gateway(
    settings: Settings, client: JobClient, access: Access, observers: Observers
) -> GatewaySide:
    """Raises ModelConfigError."""
    path = settings.model_config_
    overrides = read_model_config(path) if path is not None else None
    gateway = Gateway(client, gateway_config(settings), observers.metrics, overrides)
    service = Service(
        gateway=gateway,
        health=observers.health,
        metrics=observers.metrics,
        quotas=Quotas(access.limits),
        usage=access.recorder,
        created=int(time.time()),
    )
    watch = ModelWatch(gateway.catalog, client, observers.metrics)
    return GatewaySide(
        create_app(service, access.authenticator, VERSION, observers.tracing), gateway, watch
    )


def build_client(settings: Settings, metrics: Metrics) -> "RedisJobClient":
    """`start` it, and `close` it at the end. Raises SettingsError and UnsupportedRedis."""
    from transport.redis.client import RedisJobClient

    client = RedisJobClient(
        redis_config(settings),
        on_event=partial(count_event, metrics),
        on_answer=partial(measure_answer, metrics),
    )
    metrics.redis_up.labels("gateway").set_function(lambda: client.healthy)
    return client


async def build_worker(settings: Settings, observers: Observers, load: Load) -> "WorkerSide":
    """Load the models, while the consumer looks for Redis; `close` the consumer at the end.

    Raises CheckpointError, EngineError, SettingsError and UnsupportedRedis.
    """
    from transport.redis.consumer import RedisJobConsumer
    from worker.engine_thread import EngineThread
    from worker.worker import WorkerConfig

    name, metrics = f"{socket.gethostname()}-{uuid4().hex}", observers.metrics
    consumer = RedisJobConsumer(
        redis_config(settings),
        name,
        on_event=partial(count_event, metrics),
        on_answer=partial(measure_answer, metrics),
    )
    metrics.redis_up.labels("worker").set_function(lambda: consumer.healthy)
    thread = EngineThread(settings.watchdog_s)
    models, _ = await asyncio.gather(load_models(settings, thread, load), consumer.start())
    config = WorkerConfig(
        name, max_batch_sequences=settings.max_batch_sequences, tracing=observers.tracing
    )
    workers = build_workers(models, consumer, thread, config, metrics)
    return WorkerSide(name, workers, consumer, thread, [model.spec for model in models])


def redis_config(settings: Settings) -> RedisConfig:
    """Raises SettingsError where no Redis is named."""
    if settings.redis_url is None:
        name = "redis_url"
        raise SettingsError(f"say where Redis is: {flag_of(name)} ({variable_of(name)})")
    return RedisConfig(
        url=settings.redis_url.get_secret_value(),
        username=settings.redis_username,
        password=_revealed(settings.redis_password),
        sentinel_username=settings.redis_sentinel_username,
        sentinel_password=_revealed(settings.redis_sentinel_password),
        tls_ca_file=settings.redis_tls_ca_file,
        tls_cert_file=settings.redis_tls_cert_file,
        tls_key_file=settings.redis_tls_key_file,
    )


async def load_models(
    settings: Settings, thread: "EngineThread", load: Load = load_model
) -> "list[LoadedModel]":
    """Every model of the settings, one after another, on the engine's thread.

    Raises CheckpointError, EngineError and SettingsError.
    """
    models = [await thread.call(partial(load, settings, name)) for name in settings.model]
    settings.check_models(_names([model.spec for model in models]))
    return models


def build_workers(
    models: "Sequence[LoadedModel]",
    consumer: JobConsumer,
    thread: "EngineThread",
    config: "WorkerConfig",
    metrics: Metrics,
) -> "list[Worker]":
    """One for each model, all on one thread; the metrics know of them."""
    from worker.worker import Worker

    for model in models:
        spec = model.spec
        metrics.prime(spec.id)
        runtime = [str(spec.runtime.get(key, "")) for key in ("device", "attention")]
        metrics.model_info.labels(spec.id, spec.dtype, *runtime).set(1)
        ranks = (spec.runtime.get("self_test") or {}).get("ranks_known_pair")
        metrics.misranked_known_pair.labels(spec.id).set(ranks is False)
    return [Worker(model, consumer, thread, config, metrics) for model in models]


def count_event(metrics: Metrics, event: TransportEvent, model: str) -> None:
    """What the transport calls; `model` is '' for an event of none."""
    of_no_model: dict[TransportEvent, Counter] = {
        "reconnected": metrics.redis_reconnects,
        "duplicate_reply": metrics.duplicate_replies,
        "unreadable_reply": metrics.unreadable_replies,
    }
    of_a_model: dict[TransportEvent, Counter] = {
        "redelivered": metrics.redelivered,
        "resubmitted": metrics.resubmitted,
        "dead_lettered": metrics.dead_lettered,
        "late_finish": metrics.late_finishes,
    }
    if event in of_no_model:
        of_no_model[event].inc()
    else:
        of_a_model[event].labels(model).inc()


def measure_answer(metrics: Metrics, op: str, seconds: float) -> None:
    metrics.redis_op_duration.labels(op).observe(seconds)


def gateway_config(settings: Settings) -> GatewayConfig:
    return GatewayConfig(
        max_inputs=settings.max_inputs,
        max_request_tokens=settings.max_request_tokens,
        max_body_bytes=settings.max_body_bytes,
        max_queue_s=settings.max_queue_s,
        bulk_tokens=settings.bulk_tokens,
        max_shard_sequences=settings.max_batch_sequences,
        timeout_s=settings.timeout_s,
        max_timeout_s=settings.max_timeout_s,
        tokenizer_threads=settings.tokenizer_threads,
    )


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _names(specs: list[ModelSpec]) -> list[str]:
    """Ids and aliases. Raises CheckpointError where two models share one."""
    names = [name for spec in specs for name in {spec.id, *spec.aliases}]
    for name in names:
        if names.count(name) > 1:
            raise CheckpointError(f"two models are called {name!r}: give one of them an alias")
    return names
