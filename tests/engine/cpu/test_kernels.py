"""What the kernels in C++ compute of a model, and what they leave to others."""

from pathlib import Path

import pytest
import torch
from cpu_paths import ALL_FEATURES, SEQUENCES, processor, tiny_engine
from sequences import cosines, rows_of

from engine.attention import AttentionSpec
from engine.cpu.binding import Features
from engine.cpu.kernels import cpu_kernels
from engine.cpu.products import CpuAttention, CpuLinear
from engine.group_attention import GroupAttention
from engine.linear import OneDnnLinear


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_auto_is_the_kernels_in_cpp(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor(monkeypatch, ALL_FEATURES)
    runtime = tiny_engine(tmp_path, dtype=dtype).runtime
    assert (runtime["kernels"], runtime["attention"]) == ("cpu", "cpu")


def test_float32_needs_no_bfloat16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processor(monkeypatch, Features.AVX512)
    assert tiny_engine(tmp_path, dtype="float32").runtime["kernels"] == "cpu"


def test_tiles_multiply_where_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    processor(monkeypatch, ALL_FEATURES | Features.TILES)
    kernels = cpu_kernels(torch.bfloat16, 2048)
    weight = torch.randn(32, 64)
    assert kernels.name == "cpu"
    assert isinstance(kernels.linear(weight, None), OneDnnLinear)
    assert isinstance(kernels.attention(AttentionSpec(4, 4, 16, 0.25)), CpuAttention)
    assert kernels.bucket(1001) == 1024  # oneDNN prepares few totals
    # There are none for float32.
    assert isinstance(cpu_kernels(torch.float32, 2048).linear(weight, None), CpuLinear)


def test_model_on_tiles_gives_the_same_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor(monkeypatch, ALL_FEATURES | Features.TILES)
    rows = rows_of(tiny_engine(tmp_path, dtype="bfloat16"), SEQUENCES)
    exact = rows_of(tiny_engine(tmp_path, dtype="float32", kernels="plain"), SEQUENCES)
    assert cosines(rows, exact).min() > 0.998


def test_odd_widths_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bfloat16 are one word: a row of an odd width begins in the middle of one."""
    processor(monkeypatch, ALL_FEATURES)
    kernels = cpu_kernels(torch.bfloat16, 64)
    weight, x = torch.randn(32, 33), torch.randn(5, 33).bfloat16()
    for linear in (kernels.linear(weight, None), kernels.gated_linear(weight, None, "silu")):
        assert not isinstance(linear, CpuLinear)
        assert linear(x).isfinite().all()
    assert isinstance(kernels.attention(AttentionSpec(4, 4, 17, 0.25)), GroupAttention)
    assert isinstance(cpu_kernels(torch.float32, 64).linear(weight, None), CpuLinear)
