"""What the driver says of this host's GPUs, as metrics."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from observability.logs import get_logger, place_of
from observability.metrics import Metrics


@dataclass(frozen=True)
class GpuReading:
    """Of one GPU at a moment. None: the driver does not tell, or the GPU has no such thing."""

    used_bytes: int | None = None
    reserved_bytes: int | None = None  # by driver and firmware
    total_bytes: int | None = None
    utilization: float | None = None  # share of time in which any kernel ran, 0 to 1
    power_w: float | None = None
    ecc_errors: int | None = None  # not corrected, since the driver was loaded


class GpuReader(Protocol):
    """Asks the driver. May take milliseconds."""

    def read(self) -> Mapping[str, GpuReading]:
        """Every GPU that this process may see, by its number on the host."""
        ...


class NvmlReader:
    """By nvidia-ml-py."""

    def __init__(self, nvml: Any) -> None:
        """`nvml`: the module pynvml. Raises its NVMLError where there is no driver."""
        nvml.nvmlInit()
        self._nvml = nvml
        count = nvml.nvmlDeviceGetCount()
        self._devices = {str(i): nvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)}

    def read(self) -> Mapping[str, GpuReading]:
        return {number: self._read(device) for number, device in self._devices.items()}

    def _read(self, device: Any) -> GpuReading:
        nvml = self._nvml
        memory = self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(device, nvml.nvmlMemory_v2))
        usage = self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(device))
        milliwatts = self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(device))
        kind, since = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        return GpuReading(
            used_bytes=memory and memory.used,
            reserved_bytes=memory and memory.reserved,
            total_bytes=memory and memory.total,
            utilization=None if usage is None else usage.gpu / 100,
            power_w=None if milliwatts is None else milliwatts / 1000,
            ecc_errors=self._ask(lambda: nvml.nvmlDeviceGetTotalEccErrors(device, kind, since)),
        )

    def _ask(self, question: Callable[[], Any]) -> Any:
        """None for what this GPU does not have."""
        try:
            return question()
        except self._nvml.NVMLError:
            return None


def open_nvml() -> GpuReader | None:
    """None where nvidia-ml-py is not installed, or finds no driver."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        return NvmlReader(pynvml)
    except pynvml.NVMLError:
        return None


class GpuMetrics:
    """Of every GPU, as of the last reading."""

    def __init__(self, metrics: Metrics, reader: GpuReader) -> None:
        self._metrics = metrics
        self._reader = reader
        self._ecc_errors: dict[str, int] = {}  # counted so far, by GPU

    async def run(self, period_s: float = 5.0) -> None:
        """Read until cancelled: in a thread, since a driver in trouble answers late."""
        while True:
            try:
                self.take(await asyncio.to_thread(self._reader.read))
            except Exception as error:  # figures that are missing must not end what serves
                get_logger().warning("gpu_unreadable", **place_of(error))
            await asyncio.sleep(period_s)

    def take(self, readings: Mapping[str, GpuReading]) -> None:
        metrics = self._metrics
        for gpu, reading in readings.items():
            for gauge, value in (
                (metrics.gpu_memory_used_bytes, reading.used_bytes),
                (metrics.gpu_memory_reserved_bytes, reading.reserved_bytes),
                (metrics.gpu_memory_total_bytes, reading.total_bytes),
                (metrics.gpu_utilization_ratio, reading.utilization),
                (metrics.gpu_power_watts, reading.power_w),
            ):
                if value is not None:
                    gauge.labels(gpu).set(value)
            if reading.ecc_errors is not None:
                known = self._ecc_errors.get(gpu, 0)
                # The driver counts anew when it is loaded anew.
                further = reading.ecc_errors - (known if reading.ecc_errors >= known else 0)
                metrics.gpu_ecc_errors.labels(gpu).inc(further)
                self._ecc_errors[gpu] = reading.ecc_errors
