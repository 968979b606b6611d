"""Compiles what a launch would run on a Hopper GPU, without one."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

SM_90 = GPUTarget("cuda", 90, 32)


class AbsentDevice:
    """As much of a triton driver as compiling needs."""

    def get_current_target(self) -> GPUTarget:
        return SM_90

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def compiled(launch: Callable[[], object]) -> list[CompiledKernel]:
    """The kernels of `launch`, specialized as its arguments have it. Nothing is launched."""
    kernels: list[CompiledKernel] = []
    run = JITFunction.run

    def compile_only(self: JITFunction[Any], *args: Any, **kwargs: Any) -> CompiledKernel:
        kernel = run(self, *args, **{**kwargs, "warmup": True})
        kernels.append(kernel)
        return kernel

    driver.set_active(AbsentDevice())
    with patch.object(JITFunction, "run", compile_only):
        launch()
    return kernels
