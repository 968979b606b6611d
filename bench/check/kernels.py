"""The engine in process: kernels in C++ over oneDNN's, by `bench.cpu`."""

from collections.abc import Callable, Mapping, Sequence

import torch

from bench.check.ratios import Measured, Ratio
from bench.cpu.measure import CpuPlan, measure_kernels
from bench.cpu.results import Figure
from checkpoint.find import DEFAULT_MODEL
from engine.cpu.binding import cpu_fault
from engine.linear import onednn_fault

_OURS, _OTHER = "cpu", "onednn"
_DTYPES: Mapping[str, torch.dtype] = {"bfloat16": torch.bfloat16, "float32": torch.float32}
LOADS = ("mixed", "q16", "long")


def name_of(load: str, dtype: str) -> str:
    return f"kernels, {load}, {dtype}"


def measure_kernel_ratios(rounds: int, measured: Measured, tell: Callable[[str], None]) -> None:
    """Adds those of every dtype that both kinds of kernels have here, and why not for others.

    Raises WrongVectors, EngineError and CheckpointError.
    """
    runs_here = []
    for dtype, torch_dtype in _DTYPES.items():
        fault = cpu_fault(torch_dtype) or onednn_fault(torch_dtype)
        if fault is None:
            runs_here.append(dtype)
        else:
            measured.skipped |= {name_of(load, dtype): fault for load in LOADS}
    if runs_here:
        plan = CpuPlan(DEFAULT_MODEL, runs_here, (_OURS, _OTHER), rounds)
        measured.ratios += _ratios(measure_kernels(plan, tell).figures)


def _ratios(figures: Sequence[Figure]) -> list[Ratio]:
    seconds = {(f.load, f.dtype, f.kernels): f.seconds for f in figures}
    return [
        Ratio(
            name_of(load, dtype),
            [
                other_s / ours_s
                for ours_s, other_s in zip(ours, seconds[load, dtype, _OTHER], strict=True)
            ],
        )
        for (load, dtype, kernels), ours in seconds.items()
        if kernels == _OURS
    ]
