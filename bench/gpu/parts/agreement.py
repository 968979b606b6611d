"""Whether a replay computes what a launched forward does, and both what float32 does."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from bench.gpu.closeness import MIN_COSINE, Vectors, largest_error, least_cosine, other_cosine
from bench.gpu.forward import KIND, Forward
from bench.gpu.loads import batch_of, random_texts
from bench.gpu.parts.part import Row, Rows, Value
from bench.gpu.setup import Setup
from bench.gpu.shapes import ModelShape
from bench.gpu.timing import computed
from engine.batch import Batch
from engine.device.buckets import Configuration
from engine.device.device import Graph
from engine.engine import Engine
from engine.errors import EngineError
from engine.runtime import EngineConfig


def measure(setup: Setup, shape: ModelShape) -> Rows:
    for tokens, slots in setup.sizes.replays:
        yield from _replays(setup, shape, tokens, slots)
    yield from _precisions(setup, shape)


def _replays(setup: Setup, shape: ModelShape, tokens: int, slots: int) -> Rows:
    """One graph and texts of many lengths, each alone and behind a step that fills all buffers."""
    replayed = _Replayed(setup.forward(shape), tokens, slots)
    longest = min(tokens, shape.max_tokens)
    full = [min(tokens // slots, longest)] * slots
    try:
        for name, lengths in _cases(tokens, slots, longest):
            batch = batch_of(random_texts(lengths, shape.vocabulary))
            alone = replayed.rows(batch)
            replayed.rows(batch_of(random_texts(full, shape.vocabulary, seed=1)))
            behind, launched = replayed.rows(batch), replayed.launched(batch)
            stays = np.array_equal(alone, behind)
            cosine = least_cosine(behind[:, :-1], launched[:, :-1])
            columns: dict[str, Value] = {
                "model": shape.name,
                "graph": f"{tokens} tokens, {slots} texts",
                "texts": name,
                "min_cosine": cosine,
                "relative_error": largest_error(behind[:, :-1], launched[:, :-1]),
                "same_behind_another": stays,
                "passes": stays and cosine >= MIN_COSINE and bool(behind[:, -1].all()),
            }
            yield Row("Replays beside launched forwards", columns)
    finally:
        replayed.reset()


def _cases(tokens: int, slots: int, longest: int) -> Iterator[tuple[str, list[int]]]:
    random = np.random.default_rng(5)
    yield "one token", [1]
    yield f"one of {longest}", [longest]
    yield "half, and empty slots", [min(tokens // 2, longest)]
    yield "one token in every slot", [1] * slots
    for draw in range(1, 4):
        cuts = np.sort(random.choice(tokens, max(1, slots - draw), replace=False))
        lengths = np.minimum(np.diff(cuts, prepend=0), longest)
        yield f"random, {draw}", [int(length) for length in lengths if length]


class _Replayed:
    """A graph of one configuration that any texts are put through."""

    def __init__(self, forward: Forward, tokens: int, slots: int) -> None:
        self._forward, self._device = forward, forward.device
        self._configuration: Configuration = forward.padded(tokens, slots)
        forward.warm_up(self._configuration)
        self._graph: Graph = self._device.graph_pool().graph()
        forward.capture(self._graph, self._configuration)

    def rows(self, batch: Batch) -> Vectors:
        """[B, D + 1]: the last column is 1 where the device says that the row is finite."""
        program = self._forward.program
        output = program.output(self._configuration)
        self._device.run(partial(_poison, output))
        program.upload(self._configuration, batch)
        self._graph.replay()
        return computed(self._device, lambda: _read(output, batch))

    def launched(self, batch: Batch) -> Vectors:
        """The same by a forward of exactly these texts."""
        bound = int(batch.lengths.max()) if self._forward.attention.bakes_max_seqlen else 0
        exact = Configuration(KIND, batch.tokens, batch.sequences, bound)
        self._forward.program.upload(exact, batch)
        found = self._forward.program.run_exact(exact)
        return computed(self._device, lambda: _read(found[0], batch))

    def reset(self) -> None:
        self._device.synchronize()
        self._graph.reset()


def _poison(output: torch.Tensor) -> None:
    """So that no row is taken which was not written."""
    output.fill_(torch.nan)


def _read(output: torch.Tensor, batch: Batch) -> Vectors:
    rows: Vectors = output[: batch.sequences].cpu().numpy().copy()
    return rows


@dataclass(frozen=True)
class _Reference:
    name: str
    config: EngineConfig
    batch: Batch


def _precisions(setup: Setup, shape: ModelShape) -> Rows:
    """The engine as it serves beside float32 by torch's functions, there and on the CPU."""
    exact = replace(setup.config, dtype="float32", kernels="plain", graphs=False)
    references = [
        _Reference(name, config, batch_of(random_texts(lengths, shape.vocabulary)))
        for name, config, lengths in (
            ("float32, same device", exact, setup.sizes.compared_lengths),
            ("float32, CPU", replace(exact, device="cpu"), setup.sizes.cpu_lengths),
        )
    ]
    for reference in references:
        rows = setup.engine(shape).step(reference.batch).wait().rows
        columns: dict[str, Value] = {"model": shape.name, "beside": reference.name}
        try:
            expected = _embedded(setup, shape, reference)
        except EngineError as error:
            columns["fault"] = str(error)  # no backend of attention computes in float32
        else:
            cosine = least_cosine(rows, expected)
            columns |= {
                "texts": reference.batch.sequences,
                "min_cosine": cosine,
                "relative_error": largest_error(rows, expected),
                "other_texts_cosine": other_cosine(expected),
                "passes": cosine >= MIN_COSINE,
            }
        yield Row("Vectors beside float32", columns)


def _embedded(setup: Setup, shape: ModelShape, reference: _Reference) -> Vectors:
    device = None if reference.config.device == "cpu" else setup.device
    spec, files = setup.checkpoints.spec(shape), setup.checkpoints.files(shape)
    engine = Engine.load(spec, files, reference.config, device)
    try:
        return engine.step(reference.batch).wait().rows
    finally:
        engine.close()
