"""The same texts in sentence-transformers, on the same device and with the same weights."""

import torch

from bench.gpu.closeness import MIN_COSINE, Vectors, least_cosine
from bench.gpu.loads import Ids, Load, batch_of, random_texts
from bench.gpu.parts.part import Row, Rows, Value
from bench.gpu.peer import Embed
from bench.gpu.setup import Setup
from bench.gpu.shapes import ModelShape
from bench.gpu.timing import Effort, time_host
from engine.device.memory import is_sticky
from engine.engine import Engine

_ONE_RUN = Effort(timed_s=0, least_runs=1)
_UP_TO_REPLAY = 3
_TABLE = "Beside sentence-transformers"


def measure(setup: Setup, shape: ModelShape) -> Rows:
    engine = setup.engine(shape)
    try:
        yield from _parity(setup, shape, engine)
        yield from _speeds(setup, shape, engine)
    except ImportError as error:
        yield Row(_TABLE, {"model": shape.name, "fault": f"not installed: {error}"})
    except Exception as error:
        if is_sticky(error):
            raise
        fault = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        yield Row(_TABLE, {"model": shape.name, "fault": fault})


def _parity(setup: Setup, shape: ModelShape, engine: Engine) -> Rows:
    texts = random_texts(setup.sizes.compared_lengths, shape.vocabulary)
    embed = _load(setup, shape, torch.float32)
    cosine = least_cosine(_ours(engine, setup, texts), embed(texts, len(texts)))
    yield Row(
        "Vectors beside sentence-transformers in float32",
        {
            "model": shape.name,
            "texts": len(texts),
            "min_cosine": cosine,
            "passes": cosine >= MIN_COSINE,
        },
    )


def _speeds(setup: Setup, shape: ModelShape, engine: Engine) -> Rows:
    """Of both from ids on the host to vectors on the host."""
    embed = _load(setup, shape, setup.dtype)
    for load in setup.fitting(setup.sizes.peer_loads, shape):
        texts = random_texts(load.lengths, shape.vocabulary)
        for _ in range(_UP_TO_REPLAY):
            rows = _ours(engine, setup, texts)
        cosine = least_cosine(rows, embed(texts, setup.sizes.peer_batches[0]))
        ours_s = time_host(lambda: _ours(engine, setup, texts), setup.sizes.effort)  # noqa: B023
        size = _best_size(setup, load, texts, embed)
        theirs_s = time_host(lambda: embed(texts, size), setup.sizes.effort)  # noqa: B023
        columns: dict[str, Value] = {
            "model": shape.name,
            "load": load.name,
            "ours_ms": ours_s * 1e3,
            "theirs_ms": theirs_s * 1e3,
            "at_a_time": size,
            "ours_texts_per_s": load.texts / ours_s,
            "theirs_texts_per_s": load.texts / theirs_s,
            "theirs_over_ours": theirs_s / ours_s,
            "min_cosine": cosine,
        }
        yield Row(_TABLE, columns)


def _load(setup: Setup, shape: ModelShape, dtype: torch.dtype) -> Embed:
    directory = setup.checkpoints.directory(shape)
    return setup.load_peer(directory, shape, setup.device.place, dtype)


def _best_size(setup: Setup, load: Load, texts: list[Ids], embed: Embed) -> int:
    """Texts at a time that it is the fastest with, by one run of each."""
    sizes = {min(size, load.texts) for size in setup.sizes.peer_batches}
    if len(sizes) == 1:
        return sizes.pop()
    return min(sizes, key=lambda size: time_host(lambda: embed(texts, size), _ONE_RUN))


def _ours(engine: Engine, setup: Setup, texts: list[Ids]) -> Vectors:
    lengths = Load("", tuple(text.size for text in texts))
    steps, start = [], 0
    for step in lengths.steps(setup.step_tokens):
        steps.append(engine.step(batch_of(texts[start : start + len(step)])))
        start += len(step)
    rows: Vectors = torch.cat([torch.from_numpy(step.wait().rows) for step in steps]).numpy()
    return rows
