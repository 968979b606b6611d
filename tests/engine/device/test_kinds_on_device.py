"""A model of several kinds on a device: bge-m3's heads beside an encoder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference_attention import ReferenceAttention
from safetensors.torch import save_file
from sequences import batch_of, random_sequences
from simulated_device import SimulatedDevice
from tiny_checkpoint import TinyCheckpoint
from torch import Tensor

from engine.engine import Engine, EngineConfig

TINY = TinyCheckpoint(family="roberta", pooling="cls")
KINDS = ("embed", "sparse", "tokens")
BROKEN_ID = 96  # its embedding is not a number


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3)) * 0.3


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("kinds")
    tensors = TINY.tensors()
    tensors["embeddings.word_embeddings.weight"][BROKEN_ID] = np.nan
    TINY.write(directory, tensors)
    for name, size in (("sparse_linear", 1), ("colbert_linear", 48)):
        weights = {"weight": random(size, 48), "bias": random(size)}
        save_file(weights, directory / f"{name}.safetensors")
    return directory


@pytest.fixture
def attention() -> ReferenceAttention:
    return ReferenceAttention()


@pytest.fixture
def engine(
    directory: Path, attention: ReferenceAttention, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    monkeypatch.setattr("engine.engine.Installed", lambda _: {"triton": attention})
    device = SimulatedDevice()
    device.work_s = 0.0
    config = EngineConfig(dtype="float32", kernels="plain", max_batch_tokens=384)
    engine = Engine.load(TINY.spec(), TINY.files(directory), config, device=device)
    yield engine
    engine.close()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_that_of_a_cpu_launched_and_replayed(
    kind: Any, engine: Engine, directory: Path
) -> None:
    on_cpu = Engine.load(
        TINY.spec(), TINY.files(directory), EngineConfig(device="cpu", dtype="float32")
    )
    assert engine.kinds == KINDS
    launches = []
    for seed in range(3):
        batch = batch_of(random_sequences([7, 30, 1, 20], BROKEN_ID, seed), kind=kind)
        output, expected = engine.step(batch).wait(), on_cpu.step(batch).wait()
        launches.append(output.launch)
        np.testing.assert_allclose(output.rows, expected.rows, atol=2e-5)
        np.testing.assert_array_equal(output.row_offsets, expected.row_offsets)
        np.testing.assert_array_equal(output.indices, expected.indices)
        assert output.finite.tolist() == [True] * 4
    assert launches == ["eager", "eager", "replay"]


@pytest.mark.parametrize("kind", KINDS)
def test_sequence_that_is_not_finite_is_told_in_every_kind(kind: Any, engine: Engine) -> None:
    batch = batch_of(random_sequences([5, 20, 9], BROKEN_ID), kind=kind)
    batch.input_ids[7] = BROKEN_ID
    assert engine.step(batch).wait().finite.tolist() == [True, False, True]


def test_memory_of_every_kind_is_taken_and_captured_before_serving(
    engine: Engine, attention: ReferenceAttention
) -> None:
    largest = {c.kind for c in attention.prepared if c.tokens == 384 and c.slots < 512}
    captured = {c.kind for c in attention.prepared if c.tokens == 384 and c.slots == 512}
    assert largest == captured == set(KINDS)
