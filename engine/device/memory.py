"""Which errors of a device cost a step, and which cost the process."""

import torch

from engine.errors import DeviceLost, OutOfMemory

# What CUDA, cuBLAS and Triton say, in lower case, when memory is short.
_OUT_OF_MEMORY = ("out of memory", "cublas_status_alloc_failed", "cudnn_status_alloc_failed")

# After these every call in the process fails.
_STICKY = (
    "illegal memory access",
    "illegal address",
    "illegal instruction",
    "misaligned address",
    "invalid program counter",
    "invalid pc",
    "hardware stack error",
    "device-side assert",
    "unspecified launch failure",
    "launch timed out",
    "launch failure",
    "uncorrectable ecc",
    "ecc error",
    "nvlink",
    "context is destroyed",
    "no longer usable",
    "device is lost",
    "cublas_status_execution_failed",
)

# cudaError_t of calls that were refused: nothing ran, so nothing broke.
_REFUSED = frozenset(
    (
        1,  # invalid value
        9,  # invalid configuration
        98,  # invalid device function
        200,  # invalid kernel image
        209,  # no kernel image for the device
        701,  # launch out of resources
        801,  # not supported
        *range(900, 911),  # stream capture and graph update
    )
)


def translated(error: Exception) -> Exception:
    """OutOfMemory or DeviceLost caused by `error`, or `error` itself where it is neither."""
    if is_out_of_memory(error):
        return _caused(OutOfMemory(_first_line(error)), error)
    if is_sticky(error):
        return _caused(DeviceLost(_first_line(error)), error)
    return error


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and _says(error, _OUT_OF_MEMORY)
    )


def is_sticky(error: BaseException) -> bool:
    """Whether the device's context is broken. Of an accelerator's errors, all but the harmless."""
    if is_out_of_memory(error) or not isinstance(error, RuntimeError):
        return False
    if isinstance(error, torch.AcceleratorError):
        return _code(error) not in _REFUSED or _says(error, _STICKY)
    return _says(error, _STICKY)


def _code(error: torch.AcceleratorError) -> int | None:
    code: int | None = getattr(error, "error_code", None)
    return code


def _says(error: BaseException, phrases: tuple[str, ...]) -> bool:
    text = str(error).lower()
    return any(phrase in text for phrase in phrases)


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def _first_line(error: Exception) -> str:
    """CUDA's errors go on with advice for debugging."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
