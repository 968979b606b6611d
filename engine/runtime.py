"""What `auto` means on this machine: device, dtype and kernels are settled once, at load."""

import logging
from dataclasses import dataclass

import torch

from engine.errors import EngineError
from engine.kernels import Kernels, onednn_kernels, plain_kernels
from engine.linear import onednn_fault

logger = logging.getLogger(__name__)

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class EngineConfig:
    device: str = "auto"  # auto | cpu
    dtype: str = "auto"  # auto | float32 | bfloat16
    kernels: str = "auto"  # auto | onednn | plain
    max_batch_tokens: int = 2048  # what kernels are laid out for; a longer sequence runs alone


@dataclass(frozen=True, eq=False)
class Runtime:
    device: str
    dtype: str
    kernels: Kernels


def settle(config: EngineConfig) -> Runtime:
    """Raises EngineError, naming what works, for a setting this machine does not have."""
    if config.device not in ("auto", "cpu"):
        raise EngineError(f"device {config.device!r} is not supported: auto or cpu")
    dtype = _dtype(config.dtype)
    return Runtime("cpu", dtype, _kernels(config, _DTYPES[dtype]))


def _dtype(wanted: str) -> str:
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


def _kernels(config: EngineConfig, dtype: torch.dtype) -> Kernels:
    if config.kernels == "plain":
        return plain_kernels(dtype)
    if config.kernels not in ("auto", "onednn"):
        raise EngineError(f"kernels {config.kernels!r} are not known: auto, onednn or plain")
    fault = onednn_fault(dtype)
    if fault is None:
        return onednn_kernels(dtype, config.max_batch_tokens)
    if config.kernels == "onednn":
        raise EngineError(f"kernels 'onednn' cannot be used: {fault}")
    logger.warning("plain kernels, which are slower, in place of onednn: %s", fault)
    return plain_kernels(dtype)
