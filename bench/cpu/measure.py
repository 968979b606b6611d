"""Engines that differ in their kernels alone, in turns: a ratio is of one round."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray

from bench.cpu.loads import Load, loads
from bench.cpu.results import CpuResults, Figure
from bench.machine import describe_machine
from bench.statistics import spread
from checkpoint.find import find_model
from checkpoint.read import read_model
from engine.batch import Batch
from engine.engine import Engine, EngineConfig

Tell = Callable[[str], None]
Engines = Mapping[str, Engine]  # by the name of their kernels

# Below it the kernels compute something else, and how fast is nobody's interest.
MIN_COSINE = {"float32": 0.99999, "bfloat16": 0.999}


class WrongVectors(Exception):
    """Kernels that do not compute the model; the message says which."""


@dataclass(frozen=True)
class CpuPlan:
    model: str
    dtypes: Sequence[str]
    kernels: Sequence[str]  # the last is what the others are compared with
    rounds: int
    seed: int = 0


def measure_kernels(plan: CpuPlan, tell: Tell) -> CpuResults:
    """Raises WrongVectors before anything is timed, EngineError for what does not run here."""
    spec, files = read_model(find_model(plan.model))
    exact = Engine.load(spec, files, EngineConfig("cpu", "float32", "plain"))
    todo = loads(exact.max_positions)
    results = CpuResults(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=describe_machine(),
        model=spec.id,
        threads=torch.get_num_threads(),
        rounds=plan.rounds,
        loads={load.name: load.about for load in todo},
    )
    for dtype in plan.dtypes:
        engines = {
            name: Engine.load(spec, files, EngineConfig("cpu", dtype, name))
            for name in plan.kernels
        }
        for load in todo:
            tell(f"cpu: {load.name}, {dtype}")
            batches = load.batches(spec.vocab_size, plan.seed)
            cosines = _checked(engines, batches, _rows(exact, batches), dtype)
            seconds = _rounds(engines, batches, load, plan)
            results.figures.extend(_figures(load, dtype, seconds, cosines))
    return results


def _rows(engine: Engine, batches: Sequence[Batch]) -> NDArray[np.float32]:
    return np.concatenate([engine.step(batch).wait().rows for batch in batches])


def _checked(
    engines: Engines, batches: Sequence[Batch], exact: NDArray[np.float32], dtype: str
) -> dict[str, float]:
    """The least cosine of each. It also warms them up: layouts, shapes, scratch."""
    cosines = {}
    for name, engine in engines.items():
        rows = _rows(engine, batches)
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(exact, axis=1)
        cosines[name] = float(((rows * exact).sum(1) / lengths).min())
        if not cosines[name] >= MIN_COSINE[dtype]:
            raise WrongVectors(f"{name} in {dtype}: a cosine of {cosines[name]:.5f} to float32")
    return cosines


def _rounds(
    engines: Engines, batches: Sequence[Batch], load: Load, plan: CpuPlan
) -> dict[str, list[float]]:
    """Seconds of each round, by kernels."""
    order = random.Random(plan.seed)
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(plan.rounds):
        for name in sorted(engines, key=lambda _: order.random()):
            taken = []
            for _ in range(load.repetitions):
                began_s = perf_counter()
                for batch in batches:
                    engines[name].step(batch).wait()
                taken.append(perf_counter() - began_s)
            seconds[name].append(median(taken))
    return seconds


def _figures(
    load: Load, dtype: str, seconds: Mapping[str, list[float]], cosines: Mapping[str, float]
) -> list[Figure]:
    tokens, reference = sum(load.lengths), list(seconds.values())[-1]
    return [
        Figure(
            load=load.name,
            kernels=name,
            dtype=dtype,
            seconds=taken,
            tokens_per_s=spread([tokens / s for s in taken]),
            ratio=spread([other / s for other, s in zip(reference, taken, strict=True)]),
            min_cosine=cosines[name],
        )
        for name, taken in seconds.items()
    ]
