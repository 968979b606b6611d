"""The compiled kernels: what they can do on this machine, and how they are called."""

import ctypes
import platform
from ctypes import c_float, c_int, c_int32, c_int64, c_void_p
from enum import IntFlag
from functools import cache
from pathlib import Path
from typing import Any

# Before the library: both need libgomp.so.1, and the loader gives it the one that torch brings.
# Two would be two pools of threads, which spin on the same cores.
import torch

from checkpoint.compiled import compiled_library
from engine.norm import Norm


class Features(IntFlag):
    """Of the processor, as `features` in rows.cpp has them."""

    NONE = 0
    AVX512 = 1
    BFLOAT16 = 2
    TILES = 4  # AMX, which multiplies faster than the kernels do


class NormArguments(ctypes.Structure):
    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("eps", c_float), ("rms", c_int32))

    @classmethod
    def of(cls, norm: Norm | None) -> "NormArguments":
        """Its weights must be dense and float32, and live as long as this."""
        if norm is None:
            return cls()
        bias = None if norm.bias is None else norm.bias.data_ptr()
        return cls(norm.weight.data_ptr(), bias, norm.eps, norm.rms)


class JoinArguments(ctypes.Structure):
    _fields_ = tuple((name, NormArguments) for name in ("behind", "sum", "next"))


class EmbeddingArguments(ctypes.Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("words", "positions", "type_rows")),
        ("norm", NormArguments),
        *((name, c_int64) for name in ("width", "max_positions")),
    )


class AttentionArguments(ctypes.Structure):
    _fields_ = (
        *(
            (name, c_int64)
            for name in ("heads", "kv_heads", "head_dim", "before", "behind", "biased")
        ),
        ("scale", c_float),
    )


class LinearArguments(ctypes.Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("weight", "bias")),
        *((name, c_int64) for name in ("inputs", "outputs", "activation", "gated")),
    )


class BlockArguments(ctypes.Structure):
    _fields_ = (
        ("qkv", LinearArguments),
        ("qk_norm", NormArguments),
        ("turns", c_void_p),
        ("attention", AttentionArguments),
        ("kind", c_int64),
        ("output", LinearArguments),
        ("attention_join", JoinArguments),
        ("up", LinearArguments),
        ("down", LinearArguments),
        ("mlp_join", JoinArguments),
    )


class AddedArguments(ctypes.Structure):
    _fields_ = (("scores", c_void_p), ("stride", c_int64))


class TokenArguments(ctypes.Structure):
    _fields_ = (
        *(("offsets", c_void_p), ("sequences", c_int64), ("places", c_void_p)),
        *(("rows", c_int64), ("width", c_int64)),
    )


class StateArguments(ctypes.Structure):
    _fields_ = tuple(
        (name, c_void_p)
        for name in ("hidden", "entered", "wide", "attended", "attention", "mlp", "normed")
    )


_POINTER, _SIZE = c_void_p, c_int64
_ARGUMENTS = {
    "features": (),
    "attention": (*(_POINTER,) * 4, _SIZE, _POINTER, _SIZE, c_int),
    "linear": (*(_POINTER,) * 3, _SIZE, c_int),
    "join": (*(_POINTER,) * 4, *(_SIZE,) * 2, c_int),
    "norm": (*(_POINTER,) * 3, *(_SIZE,) * 2, c_int),
    "embed": (*(_POINTER,) * 5, _SIZE, c_int),
    "turn": (*(_POINTER,) * 2, *(_SIZE,) * 3, *(_POINTER,) * 2, _SIZE, c_int),
    "run_blocks": (_POINTER, _SIZE, *(_POINTER,) * 3, c_int),
    "pool": (*(_POINTER,) * 4, _SIZE, _POINTER, *(_SIZE,) * 2, c_int),
}


def compiled() -> Path | None:
    return compiled_library(Path(__file__).parent, "_kernels")


@cache
def load(path: Path) -> Any:
    """Its functions, as kernels.h and rows.cpp describe them. Raises OSError."""
    library = ctypes.CDLL(str(path))
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = c_int if name == "features" else None
    return library


def features(library: Any) -> Features:
    return Features(library.features())


_NO_AVX512 = "this processor has no AVX-512"


def cpu_fault(dtype: torch.dtype) -> str | None:
    """Why the kernels cannot be used here for tokens of this dtype; None if they can."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return _NO_AVX512
    path = compiled()
    if path is None:
        return "they were not compiled when this was installed, or have been changed since"
    try:
        found = features(load(path))
    except (OSError, AttributeError) as error:
        return f"{path.name} cannot be loaded: {error}"
    if Features.AVX512 not in found:
        return _NO_AVX512
    if dtype == torch.bfloat16 and Features.BFLOAT16 not in found:
        return "this processor has no AVX512_BF16"
    return None
