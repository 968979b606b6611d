"""The kernels of one forward, as the profiler sees them on the device."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch.profiler import ProfilerActivity, profile

from bench.gpu.timing import Work
from engine.device.device import Device

_NAME_LENGTH = 60
_NO_KERNELS = ("Memcpy", "Memset")


@dataclass(frozen=True)
class Kernel:
    name: str
    launches: int
    device_s: float  # of all its launches


def kernels_of(device: Device, enqueue: Work) -> list[Kernel]:
    """Copies and fills not counted; those that take longest first. Empty where nothing profiles."""
    enqueue()
    device.synchronize()
    if device.place.type != "cuda":
        return []
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        enqueue()
        device.synchronize()
    times_s: dict[str, list[float]] = {}
    for name, seconds in _launched(profiled):
        times_s.setdefault(name, []).append(seconds)
    kernels = [Kernel(name, len(took_s), sum(took_s)) for name, took_s in times_s.items()]
    return sorted(kernels, key=lambda kernel: -kernel.device_s)


def _launched(profiled: profile) -> Iterator[tuple[str, float]]:
    for event in profiled.events():  # type: ignore[no-untyped-call]
        if event.device_type.name == "CUDA" and not event.name.startswith(_NO_KERNELS):
            yield event.name[:_NAME_LENGTH], event.time_range.elapsed_us() / 1e6
