"""The only builder: settings in, running objects out. Worker and engine are imported when needed,
so that a gateway starts without torch installed."""

import time
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI

from api.app import create_app
from api.gateway import Gateway, GatewayConfig
from api.service import Service
from auth.authenticator import Authenticator
from auth.pepper import Peppers, load_peppers
from auth.store import KeyStore
from auth.watch import KeyWatch
from checkpoint.architecture import why_refused
from checkpoint.errors import CheckpointError, QueryTooLong
from checkpoint.find import find_model
from checkpoint.read import ReadOptions, read_model, read_tokenizer
from checkpoint.spec import ModelSpec
from checkpoint.tokenizer import TextTokenizer
from cli.known_pairs import known_pairs
from cli.settings import Settings, share_the_cores
from observability.health import Health
from observability.logs import get_logger, place_of
from observability.metrics import Metrics
from transport.memory import MemoryTransport

if TYPE_CHECKING:
    from engine.batch import Batch
    from worker.engine_thread import EngineThread
    from worker.worker import LoadedModel, Worker

VERSION = version("florilege")


@dataclass(frozen=True, eq=False)
class Observers:
    """What gateway and worker of one process both report to."""

    metrics: Metrics
    health: Health


@dataclass(frozen=True, eq=False)
class Embedded:
    """Gateway and worker in one process, over memory."""

    app: FastAPI
    gateway: Gateway
    transport: MemoryTransport
    workers: "list[Worker]"
    thread: "EngineThread"
    specs: list[ModelSpec]


def build_observers() -> Observers:
    observers = Observers(Metrics(), Health())
    observers.metrics.build_info.labels(VERSION).set(1)
    return observers


def build_keys(settings: Settings) -> tuple[Authenticator, KeyWatch, KeyStore]:
    """Who may call; `await watch.refresh()` before the first request."""
    authenticator = Authenticator()
    store = KeyStore(settings.database)
    watch = KeyWatch(authenticator, store, lambda: read_peppers(settings))
    return authenticator, watch, store


def read_peppers(settings: Settings) -> Peppers:
    """Those given, else the file of the data directory. Raises the errors of a pepper."""
    if settings.pepper is not None:
        return Peppers.parse(settings.pepper.get_secret_value())
    return load_peppers(settings.pepper_path)


async def build_embedded(
    settings: Settings, authenticator: Authenticator, observers: Observers
) -> Embedded:
    """Load the models and put everything together. Raises CheckpointError and EngineError."""
    from worker.engine_thread import EngineThread
    from worker.worker import Worker, WorkerConfig

    thread = EngineThread(settings.watchdog_s)
    models = [await thread.call(partial(load_model, settings, name)) for name in settings.model]
    names = _names([model.spec for model in models])
    settings.check_models(names)
    transport = MemoryTransport()
    config = WorkerConfig(max_batch_sequences=settings.max_batch_sequences)
    metrics = observers.metrics
    workers = [Worker(model, transport, thread, config, metrics) for model in models]
    for model in models:
        metrics.prime(model.spec.id)
        runtime = [str(model.spec.runtime.get(key, "")) for key in ("device", "attention")]
        metrics.model_info.labels(model.spec.id, model.spec.dtype, *runtime).set(1)
        ranks = (model.spec.runtime.get("self_test") or {}).get("ranks_known_pair")
        metrics.misranked_known_pair.labels(model.spec.id).set(ranks is False)
    gateway = Gateway(transport, gateway_config(settings), metrics)
    service = Service(gateway, observers.health, metrics, int(time.time()))
    app = create_app(service, authenticator, VERSION)
    return Embedded(app, gateway, transport, workers, thread, [m.spec for m in models])


def load_model(settings: Settings, name: str) -> "LoadedModel":
    """Find, read and load one model, and prove it by its self-test.

    Raises CheckpointError and EngineError.
    """
    share_the_cores()
    try:
        return _load_model(settings, name)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # A config.json may hold anything at any place: "4" for 4, 0 heads, a list for a number.
        place = place_of(error)
        message = f"{name}: a file of this checkpoint holds a value that makes no sense"
        raise CheckpointError(
            f"{message} ({place['error']} at {place.get('file')}:{place.get('line')})"
        ) from error


def _load_model(settings: Settings, name: str) -> "LoadedModel":
    from engine.engine import Engine, EngineConfig
    from worker.worker import LoadedModel

    found = find_model(name)
    chosen = settings.of_model((found.id, *found.aliases))
    options = ReadOptions(
        max_input_tokens=settings.max_input_tokens,
        matryoshka=chosen.matryoshka,
        token_input=settings.token_input,
        task=chosen.task,
        calibration=chosen.calibration,
    )
    spec, files = read_model(found, options)
    refusal = why_refused(spec.family, files.config, settings.dtype)
    if refusal is not None:
        raise CheckpointError(f"{spec.id}: dtype {settings.dtype}: {refusal}")
    tokenizer_json = read_tokenizer(files.directory)
    config = EngineConfig(
        device=settings.device,
        dtype=settings.dtype,
        kernels=settings.kernels,
        max_batch_tokens=settings.max_batch_tokens,
        attention_backend=settings.attention_backend,
        graphs=settings.graphs == "on",
        graph_cache=settings.cache_dir / "graphs.json",
    )
    engine = Engine.load(spec, files, config)
    if settings.self_test == "on":
        pairs = []
        if spec.task == "score":
            tokenizer = TextTokenizer(tokenizer_json, spec.max_tokens, spec.vocab_size)
            pairs = _known_pairs(spec, tokenizer)
        if engine.self_test(pairs).ranks_known_pair is False:
            get_logger().warning("known_pair_ranked_wrongly", model=spec.id)
    spec = replace(
        spec,
        dtype=engine.dtype,
        shard_tokens=engine.shard_tokens,
        runtime=engine.runtime,
    )
    return LoadedModel(spec, engine, tokenizer_json)


def _known_pairs(spec: ModelSpec, tokenizer: TextTokenizer) -> "list[Batch]":
    try:
        return known_pairs(spec, tokenizer)
    except QueryTooLong as error:
        message = f"{spec.id}: {spec.max_tokens} tokens are too few for a short query and a text"
        raise CheckpointError(f"{message} ({error.tokens} without the text)") from None


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


def _names(specs: list[ModelSpec]) -> list[str]:
    """Ids and aliases. Raises CheckpointError where two models share one."""
    names = [name for spec in specs for name in {spec.id, *spec.aliases}]
    for name in names:
        if names.count(name) > 1:
            raise CheckpointError(f"two models are called {name!r}: give one of them an alias")
    return names
