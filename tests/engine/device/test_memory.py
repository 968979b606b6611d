import pytest
import torch

from engine.device.memory import is_out_of_memory, is_sticky, translated
from engine.errors import DeviceLost, OutOfMemory


class Coded(torch.AcceleratorError):  # torch sets the code where it raises one
    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.error_code = code


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."),
    Coded("CUDA error: out of memory\nCUDA kernel errors might be …", 2),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("Triton Error [CUDA]: out of memory"),
]
STICKY = [
    Coded("CUDA error: an illegal memory access was encountered", 700),
    Coded("CUDA error: device-side assert triggered", 710),
    Coded("CUDA error: unspecified launch failure", 719),
    Coded("CUDA error: uncorrectable ECC error encountered", 214),
    Coded("CUDA error: misaligned address", 716),
    Coded("CUDA error: something that no list knows yet", 4711),
    torch.AcceleratorError("CUDA error: of an older torch, without a code"),
    RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx(…)`"),
]
HARMLESS = [
    Coded("CUDA error: invalid configuration argument", 9),
    Coded("CUDA error: no kernel image is available for execution on the device", 209),
    Coded("CUDA error: operation not permitted when stream is capturing", 900),
    Coded("CUDA error: operation failed due to a previous error during capture", 901),
    RuntimeError("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)"),
    ValueError("an illegal memory access, but not of a device"),
    MemoryError("out of memory, but the host's"),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=str)
def test_out_of_memory_costs_the_step(error: Exception) -> None:
    assert is_out_of_memory(error)
    assert not is_sticky(error)
    assert isinstance(translated(error), OutOfMemory)


@pytest.mark.parametrize("error", STICKY, ids=str)
def test_broken_context_costs_the_process(error: Exception) -> None:
    assert is_sticky(error)
    assert not is_out_of_memory(error)
    assert isinstance(translated(error), DeviceLost)


@pytest.mark.parametrize("error", HARMLESS, ids=str)
def test_other_errors_stay_what_they_are(error: Exception) -> None:
    assert not is_sticky(error)
    assert not is_out_of_memory(error)
    assert translated(error) is error


def test_translation_says_it_in_a_line_and_keeps_the_cause() -> None:
    error = Coded("CUDA error: unspecified launch failure\nFor debugging consider …", 719)
    lost = translated(error)
    assert str(lost) == "CUDA error: unspecified launch failure"
    assert lost.__cause__ is error
