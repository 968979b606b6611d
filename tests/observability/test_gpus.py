"""Figures of GPUs, from a driver that is not there."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from observability.gpus import GpuMetrics, GpuReading, NvmlReader, open_nvml
from observability.metrics import Metrics

WaitUntil = Callable[..., Awaitable[None]]


class NoSuchThing(Exception):
    """pynvml's NVMLError."""


class FakeNvml:
    """The module pynvml, of a host with two GPUs, of which the second knows no ECC and no power."""

    NVMLError = NoSuchThing
    nvmlMemory_v2 = 33554472  # noqa: N815  its name there
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0

    def nvmlInit(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetMemoryInfo(self, device: int, version: int) -> Any:  # noqa: N802
        assert version == self.nvmlMemory_v2
        return SimpleNamespace(used=10 + device, reserved=1, total=100)

    def nvmlDeviceGetUtilizationRates(self, device: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=50, memory=20)

    def nvmlDeviceGetPowerUsage(self, device: int) -> int:  # noqa: N802
        if device:
            raise NoSuchThing
        return 350_500

    def nvmlDeviceGetTotalEccErrors(self, device: int, kind: int, since: int) -> int:  # noqa: N802
        if device:
            raise NoSuchThing
        assert (kind, since) == (1, 0)
        return 4


class FakeReader:
    def __init__(self) -> None:
        self.reading = GpuReading(utilization=0.25)
        self.broken = False
        self.reads = 0

    def read(self) -> Mapping[str, GpuReading]:
        self.reads += 1
        if self.broken:
            raise OSError("the driver is gone")
        return {"0": self.reading}


def value(metrics: Metrics, name: str, gpu: str = "0") -> float | None:
    return metrics.registry.get_sample_value(f"florilege_gpu_{name}", {"gpu": gpu})


def test_every_gpu_is_read_and_what_one_does_not_have_is_left_out() -> None:
    metrics = Metrics()
    GpuMetrics(metrics, FakeReader()).take(NvmlReader(FakeNvml()).read())
    assert value(metrics, "memory_used_bytes", "1") == 11
    assert value(metrics, "memory_reserved_bytes") == 1
    assert value(metrics, "memory_total_bytes") == 100
    assert value(metrics, "utilization_ratio") == 0.5
    assert value(metrics, "power_watts") == 350.5
    assert value(metrics, "ecc_errors_total") == 4
    assert value(metrics, "power_watts", "1") is None
    assert value(metrics, "ecc_errors_total", "1") is None


def test_errors_are_counted_on_when_the_driver_counts_anew() -> None:
    metrics = Metrics()
    gpus = GpuMetrics(metrics, FakeReader())
    for errors, total in ((2, 2), (2, 2), (5, 5), (1, 6)):
        gpus.take({"0": GpuReading(ecc_errors=errors)})
        assert value(metrics, "ecc_errors_total") == total


async def test_driver_that_fails_is_told_of_and_asked_again(wait_until: WaitUntil) -> None:
    reader, metrics = FakeReader(), Metrics()
    reader.broken = True
    with capture_logs() as logs:
        task = asyncio.create_task(GpuMetrics(metrics, reader).run(period_s=0.001))
        await wait_until(lambda: reader.reads > 1)
        reader.broken = False
        await wait_until(lambda: value(metrics, "utilization_ratio") == 0.25)
        task.cancel()
    assert {(line["event"], line["error"]) for line in logs} == {("gpu_unreadable", "OSError")}


class Driverless(FakeNvml):
    def nvmlInit(self) -> None:  # noqa: N802
        raise NoSuchThing


@pytest.mark.parametrize(("module", "found"), [(FakeNvml(), True), (Driverless(), False)])
def test_host_without_a_driver_has_no_figures(
    monkeypatch: pytest.MonkeyPatch, module: FakeNvml, found: bool
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", module)
    assert (open_nvml() is not None) == found


def test_host_without_the_library_has_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert open_nvml() is None
