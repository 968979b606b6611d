"""Whole models by fused kernels, in Triton's interpreter: the vectors of their references."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.pipeline import Sequences
from reference.zoo import values
from reference.zoo.registry import GROUPS
from sequences import batch_of
from simulated_device import SimulatedDevice
from torch.utils._python_dispatch import TorchDispatchMode
from triton.runtime.interpreter import GridExecutor

from checkpoint.find import find_model
from checkpoint.read import read_model
from engine.batch import Batch
from engine.engine import Engine, EngineConfig

# The interpreter takes seconds for a layer, and more beside other work.
pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.timeout(240)]

# One of each kind of block: post-norm, pre-norm with shared keys and normed queries, both at once
# with windows, windows to both sides, relative biases, rotations in a post-norm block.
MODELS = (
    "bert-legacy-cls",
    "qwen3-last",
    "gemma3-mean-dense",
    "modernbert-mean",
    "mpnet-mean",
    "nomic-mean",
    "qwen2-scores",
)


def load(name: str, directory: Path, **config: Any) -> Engine:
    reference = values.read(values.GROUP_OF[name])
    spec, files = read_model(find_model(str(values.write_checkpoint(name, reference, directory))))
    settings = {"kernels": "fused", "max_batch_tokens": 64, "graphs": False} | config
    device = SimulatedDevice()
    device.work_s = 0.0  # launching takes longer, so that graphs gain
    return Engine.load(spec, files, EngineConfig(**settings), device=device)


def some_of(name: str) -> tuple[Batch, np.ndarray]:
    """A few sequences of the reference, one longer than a window, and their rows."""
    reference = values.read(values.GROUP_OF[name])
    stored = Sequences.stored(reference, f"{name}/sequences")
    chosen = [2, 0, 40, 17]
    sequences = stored.take(chosen)
    task = "score" if name.endswith("scores") else "embed"
    batch = batch_of(sequences.input_ids, sequences.type_ids, kind=task)  # type: ignore[arg-type]
    return batch, reference.arrays[f"{name}/sequences/rows"][chosen]


@pytest.mark.parametrize("name", MODELS)
def test_rows_equal_the_reference(name: str, tmp_path: Path) -> None:
    engine = load(name, tmp_path / name, dtype="float32")
    batch, expected = some_of(name)
    rows = engine.step(batch).wait().rows
    if engine.spec.normalizes:
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    engine.close()
    assert engine.runtime["kernels"] == "fused"
    assert engine.runtime["attention"] == "triton"
    tolerance = GROUPS[values.GROUP_OF[name]][name].tolerance
    np.testing.assert_allclose(rows, expected, rtol=0, atol=tolerance)


def test_replay_of_a_padded_total_gives_the_same_rows(tmp_path: Path) -> None:
    engine = load("bert-legacy-cls", tmp_path / "model", dtype="float32", graphs=True)
    batch, expected = some_of("bert-legacy-cls")
    launches = []
    for _ in range(3):
        output = engine.step(batch).wait()
        launches.append(output.launch)
        np.testing.assert_allclose(output.rows, expected, rtol=0, atol=1e-4)
    engine.close()
    assert launches == ["eager", "eager", "replay"]


class Launches(TorchDispatchMode):
    """Counts what would be launched on a device: products and operators, but no views."""

    _FREE = ("view", "slice", "split", "select", "transpose", "t", "empty", "new_empty", "expand")

    def __init__(self) -> None:
        super().__init__()
        self.operators: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = func.overloadpacket.__name__
        if name.strip("_").removeprefix("unsafe_") not in self._FREE and "split" not in name:
            self.operators[name] += 1
        return func(*args, **(kwargs or {}))


@pytest.fixture
def kernels_launched(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    launched: Counter[str] = Counter()
    call = GridExecutor.__call__

    def counted(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        launched[self.fn.__name__] += 1
        # What the interpreter itself does with torch is not the device's.
        with torch.utils._python_dispatch._disable_current_modes():
            return call(self, *args, **kwargs)

    monkeypatch.setattr(GridExecutor, "__call__", counted)
    return launched


@pytest.mark.parametrize(
    ("name", "a_layer"), [("bert-legacy-cls", 7), ("qwen3-last", 8), ("llama-last", 8)]
)
def test_short_steps_are_few_kernels(
    name: str, a_layer: int, tmp_path: Path, kernels_launched: Counter[str]
) -> None:
    engine = load(name, tmp_path / name, dtype="float16")
    runner: Any = engine._runner
    configuration = runner._program.blank(engine.kinds[0], 64)
    runner._program.upload_blank(configuration)
    runner._device.synchronize()
    kernels_launched.clear()
    with Launches() as launches:
        runner._program.run_exact(configuration)
        runner._device.synchronize()
    engine.close()
    total = sum(kernels_launched.values()) + sum(launches.operators.values())
    layers = len(engine._model.encoder.blocks)
    assert total <= a_layer * layers + 5, (kernels_launched, launches.operators)
