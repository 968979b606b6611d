"""What a compiled kernel takes of a multiprocessor."""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import triton
from triton.compiler import CompiledKernel

_CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


@dataclass(frozen=True)
class Usage:
    kernel: str
    warps: int
    registers: int  # a thread
    spilled_bytes: int  # a thread: the frame in memory that ptxas falls back to
    shared_bytes: int  # a program
    wgmma: int  # instructions of Hopper's tensor cores
    mma: int  # instructions of the tensor cores of before


def usage(kernel: CompiledKernel) -> Usage:
    dumped = _resources(kernel.asm["cubin"])
    ptx = kernel.asm["ptx"]
    return Usage(
        kernel=kernel.metadata.name,
        warps=kernel.metadata.num_warps,
        registers=dumped["REG"],
        spilled_bytes=dumped["STACK"] + dumped["LOCAL"],
        shared_bytes=kernel.metadata.shared,
        wgmma=ptx.count("wgmma.mma_async"),
        mma=len(re.findall(r"\bmma\.sync", ptx)),
    )


def _resources(cubin: bytes) -> dict[str, int]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [_CUOBJDUMP, "--dump-resource-usage", file.name]
        dump = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in re.findall(r"\b([A-Z]+):(\d+)", dump)}
