"""What `auto` means on this machine: device, dtype and kernels are settled once, at load."""

import logging
import re
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.cpu.binding import compiled, cpu_fault
from engine.cpu.kernels import cpu_kernels
from engine.device.device import Device
from engine.errors import EngineError
from engine.kernels import Kernels, onednn_kernels, plain_kernels, ragged_kernels
from engine.linear import onednn_fault

logger = logging.getLogger(__name__)

_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}

_CPU_BATCH_TOKENS, _DEVICE_BATCH_TOKENS = 2048, 32_768


@dataclass(frozen=True)
class EngineConfig:
    device: str = "auto"  # auto | cpu | cuda | cuda:N
    dtype: str = "auto"  # auto | float32 | bfloat16 | float16, the last on a GPU
    kernels: str = "auto"  # auto | cpu | onednn | plain on a CPU, auto | fused | plain on a GPU
    cpu_kernels: bool = True  # of a CPU: auto may be those in C++
    # What kernels are laid out for; a longer sequence runs alone. None: 2,048 on a CPU, 32,768 on a
    # GPU.
    max_batch_tokens: int | None = None
    keep_freed_memory: bool = True  # of a CPU: the whole process keeps it for the next step
    attention_backend: str = "auto"  # of a GPU: auto, or a name of engine.backends
    graphs: bool = True  # of a GPU: capture what is launched often
    graph_cache: Path | None = None  # where configurations that were hot are remembered


@dataclass(frozen=True, eq=False)
class Runtime:
    dtype: str
    kernels: Kernels
    max_batch_tokens: int
    device: Device | None = None  # None: the CPU

    @property
    def device_name(self) -> str:
        return "cpu" if self.device is None else self.device.name


def settle(config: EngineConfig, device: Device | None = None) -> Runtime:
    """`device` is one that is open already. Raises EngineError, naming what works, for a setting
    that this machine does not have.
    """
    if device is None:
        device = _open(config.device)
    if device is not None:
        return _settle_on(device, config)
    dtype = _cpu_dtype(config.dtype)
    tokens = config.max_batch_tokens or _CPU_BATCH_TOKENS
    return Runtime(dtype, _cpu_kernels(config, _DTYPES[dtype], tokens), tokens)


def _open(name: str) -> Device | None:
    """The device of this name; None for the CPU."""
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return None
    match = re.fullmatch(r"auto|cuda(?::([0-9]+))?", name)
    if match is None:
        raise EngineError(f"device {name!r} is not supported: auto, cpu, cuda or cuda:N")
    if not torch.cuda.is_available():
        raise EngineError(f"device {name!r}: torch {torch.__version__} finds no CUDA device")
    index, count = int(match[1] or 0), torch.cuda.device_count()
    if index >= count:
        raise EngineError(f"device {name!r}: the last of {count} is cuda:{count - 1}")
    from engine.device.cuda import CudaDevice

    return CudaDevice(index)


def _settle_on(device: Device, config: EngineConfig) -> Runtime:
    dtype = "bfloat16" if config.dtype == "auto" else config.dtype
    if dtype not in _DTYPES:
        raise EngineError(f"dtype {dtype!r} is not known: auto, {', '.join(_DTYPES)}")
    kernels = _device_kernels(config.kernels, _DTYPES[dtype], device)
    return Runtime(dtype, kernels, config.max_batch_tokens or _DEVICE_BATCH_TOKENS, device)


def _device_kernels(wanted: str, dtype: torch.dtype, device: Device) -> Kernels:
    if wanted == "plain":
        return ragged_kernels(dtype, device.place)
    if wanted not in ("auto", "fused"):
        raise EngineError(f"kernels {wanted!r} are not for {device.name}: auto, fused or plain")
    try:
        from engine.fused_kernels import fused_kernels
    except ImportError as error:
        if wanted == "fused":
            raise EngineError(f"kernels 'fused' need triton: {error}") from error
        logger.warning("plain kernels, which are slower, as triton is not installed: %s", error)
        return ragged_kernels(dtype, device.place)
    return fused_kernels(dtype, device.place)


def _cpu_dtype(wanted: str) -> str:
    if wanted == "float16":
        raise EngineError("dtype 'float16' is not supported on a CPU: auto, float32 or bfloat16")
    if wanted == "auto":
        return "bfloat16" if _computes_bfloat16() else "float32"
    if wanted not in _DTYPES:
        raise EngineError(f"dtype {wanted!r} is not known: auto, float32 or bfloat16")
    return wanted


def _computes_bfloat16() -> bool:
    """Whether the CPU has instructions for it; elsewhere it is emulated, slower than float32."""
    # Not in every torch from 2.11 on: without it nothing is assumed.
    capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def _cpu_kernels(config: EngineConfig, dtype: torch.dtype, max_tokens: int) -> Kernels:
    if config.kernels == "plain":
        return plain_kernels(dtype)
    if config.kernels not in ("auto", "cpu", "onednn"):
        raise EngineError(f"kernels {config.kernels!r} are not known: auto, cpu, onednn or plain")
    if config.kernels != "onednn":
        fault = cpu_fault(dtype) if config.cpu_kernels else "they are switched off"
        if fault is None:
            return cpu_kernels(dtype, max_tokens)
        if config.kernels == "cpu":
            raise EngineError(f"kernels 'cpu' cannot be used: {fault}")
        level = logging.WARNING if config.cpu_kernels and compiled() is None else logging.INFO
        logger.log(level, "kernels of torch in place of those in C++: %s", fault)
    fault = onednn_fault(dtype)
    if fault is None:
        return onednn_kernels(dtype, max_tokens)
    if config.kernels == "onednn":
        raise EngineError(f"kernels 'onednn' cannot be used: {fault}")
    logger.warning("plain kernels, which are slower, in place of onednn: %s", fault)
    return plain_kernels(dtype)
