"""Which kernels run on which machine: each serves, and says what it computes with."""

import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
from cpu_paths import SEQUENCES, processor, tiny_engine, without_compiler
from sequences import cosines, rows_of

import engine.cpu.binding
from engine.cpu.binding import Features, compiled
from engine.errors import EngineError


def test_kernels_are_compiled_where_there_is_a_compiler() -> None:
    assert compiled() is not None or shutil.which("g++") is None


@pytest.mark.parametrize(
    ("features", "dtype"),
    [
        (Features.NONE, "float32"),
        (Features.NONE, "bfloat16"),
        (Features.AVX512, "bfloat16"),
        # Tiles without AVX-512 are nobody's: what is not known is not used.
        (Features.TILES, "bfloat16"),
    ],
)
def test_processor_without_the_instructions_serves_by_torch(
    features: Features,
    dtype: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    processor(monkeypatch, features)
    with caplog.at_level(logging.INFO):
        engine = tiny_engine(tmp_path, dtype=dtype)
    assert engine.runtime["kernels"] == "onednn"
    assert "this processor has no AVX" in caplog.text
    expected = rows_of(tiny_engine(tmp_path, dtype="float32", kernels="plain"), SEQUENCES)
    assert cosines(rows_of(engine, SEQUENCES), expected).min() > 0.998
    with pytest.raises(EngineError, match="'cpu' cannot be used: this processor has no AVX"):
        tiny_engine(tmp_path, dtype=dtype, kernels="cpu")


@pytest.mark.parametrize("machine", ["aarch64", "arm64"])
def test_other_processors_serve_by_torch(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.cpu.binding.platform, "machine", lambda: machine)
    assert tiny_engine(tmp_path, dtype="float32").runtime["kernels"] == "onednn"


def test_installation_without_a_compiler_serves_by_torch_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    without_compiler(monkeypatch)
    with caplog.at_level(logging.WARNING):
        engine = tiny_engine(tmp_path, dtype="float32")
    assert engine.runtime["kernels"] == "onednn"
    assert "they were not compiled when this was installed" in caplog.text
    expected = rows_of(tiny_engine(tmp_path, dtype="float32", kernels="plain"), SEQUENCES)
    np.testing.assert_allclose(rows_of(engine, SEQUENCES), expected, atol=2e-5)
    with pytest.raises(EngineError, match="'cpu' cannot be used: they were not compiled"):
        tiny_engine(tmp_path, dtype="float32", kernels="cpu")


def test_library_that_cannot_be_loaded_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "_kernels.so"
    broken.write_bytes(b"no library")
    monkeypatch.setattr(engine.cpu.binding, "compiled", lambda: broken)
    assert tiny_engine(tmp_path, dtype="float32").runtime["kernels"] == "onednn"


def test_kernels_can_be_switched_off(tmp_path: Path) -> None:
    engine = tiny_engine(tmp_path, dtype="float32", cpu_kernels=False)
    assert engine.runtime["kernels"] == "onednn"
    with pytest.raises(EngineError, match="'cpu' cannot be used: they are switched off"):
        tiny_engine(tmp_path, dtype="float32", kernels="cpu", cpu_kernels=False)
