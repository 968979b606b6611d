"""What the figures belong to."""

import subprocess
from importlib.metadata import PackageNotFoundError, version

import torch

from bench.gpu.parts.part import Row, Rows, Value
from bench.gpu.setup import Setup
from bench.machine import describe_machine
from engine.attention import AttentionSpec
from engine.backends.backend import Layers
from engine.backends.choice import NAMES

_PACKAGES = (
    *("torch", "triton", "numpy", "safetensors", "transformers", "sentence-transformers"),
    *("flashinfer-python", "flash-attn-4"),
)
_SMI_FIELDS = ("driver_version", "clocks.max.sm", "clocks.max.mem", "power.limit")
_HEAD_DIMS = (128, 32)  # one that all backends have, and one that some lack


def measure(setup: Setup) -> Rows:
    host, device = describe_machine(), setup.device
    free_bytes, total_bytes = device.memory()
    facts: dict[str, Value] = {
        "device": device.model,
        **_of_cuda(device.place),
        "memory": f"{free_bytes / 2**30:.1f} of {total_bytes / 2**30:.1f} GiB free",
        "host": f"{host.cpu}, {host.cores} cores, {host.memory_bytes / 2**30:.0f} GiB",
        "system": host.system,
        "load": f"{host.load_1m:.1f} when the run began",
        "commit": host.commit or "unknown",
        "python": host.versions["python"],
        "dtype": str(setup.dtype).removeprefix("torch."),
        **{name: _version(name) for name in _PACKAGES},
    }
    for name, value in facts.items():
        yield Row("What was measured", {"": name, "is": value})
    for head_dim in _HEAD_DIMS:
        spec = AttentionSpec(heads=4, kv_heads=4, head_dim=head_dim, scale=head_dim**-0.5)
        available = setup.installed(Layers((spec,), setup.dtype, device))
        for name in NAMES:
            backend = available.get(name, "is not installed")
            reason = backend if isinstance(backend, str) else None
            columns: dict[str, Value] = {"backend": name, "head_dim": head_dim}
            yield Row(
                "Attention backends", columns | {"usable": reason is None, "because_it": reason}
            )


def _of_cuda(place: torch.device) -> dict[str, Value]:
    if place.type != "cuda":
        return {}
    properties = torch.cuda.get_device_properties(place)
    return {
        "compute capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "cuda": torch.version.cuda,
        **_of_driver(place.index or 0),
    }


def _of_driver(index: int) -> dict[str, Value]:
    """What nvidia-smi knows, if it is there."""
    query = ["nvidia-smi", f"--id={index}", f"--query-gpu={','.join(_SMI_FIELDS)}"]
    try:
        answer = subprocess.run(
            [*query, "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return {"driver": f"unknown: {type(error).__name__}"}
    return dict(zip(_SMI_FIELDS, answer.stdout.strip().split(", "), strict=False))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
