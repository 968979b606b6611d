"""Kernels are counted on the device, copies left out."""

from types import SimpleNamespace

import pytest
from simulated_device import SimulatedDevice

from bench.gpu import profile
from bench.gpu.profile import Kernel, kernels_of


class RecordedProfile:
    """What the profiler gives of a forward: calls of the host beside what the device ran."""

    def __init__(self, activities: object) -> None:
        pass

    def __enter__(self) -> "RecordedProfile":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def events(self) -> list[SimpleNamespace]:
        return [
            event("cudaLaunchKernel", "CPU", 90),
            event("gemm", "CUDA", 20),
            event("Memcpy HtoD (Pinned -> Device)", "CUDA", 5),
            event("attend", "CUDA", 50),
            event("gemm", "CUDA", 40),
            event("Memset (Device)", "CUDA", 1),
        ]


class GpuLike(SimulatedDevice):
    place = SimpleNamespace(type="cuda")  # type: ignore[assignment]


def event(name: str, device: str, microseconds: float) -> SimpleNamespace:
    return SimpleNamespace(
        name=name,
        device_type=SimpleNamespace(name=device),
        time_range=SimpleNamespace(elapsed_us=lambda: microseconds),
    )


def test_kernels_are_told_by_name_those_that_take_longest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(profile, "profile", RecordedProfile)
    assert kernels_of(GpuLike(), lambda: None) == [
        Kernel("gemm", 2, pytest.approx(60e-6)),  # type: ignore[arg-type]
        Kernel("attend", 1, pytest.approx(50e-6)),  # type: ignore[arg-type]
    ]


def test_device_that_nothing_profiles_has_no_kernels() -> None:
    assert kernels_of(SimulatedDevice(), lambda: None) == []
