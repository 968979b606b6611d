"""All ratios of the gate, once."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from bench.check.kernels import measure_kernel_ratios
from bench.check.ratios import Measured
from bench.check.services import measure_service_ratios
from bench.fleet.cpu import OTHERS, CpuMeter


@dataclass(frozen=True)
class CheckEffort:
    """Rounds of each pair. With these it takes less than three minutes on two cores."""

    kernel_rounds: int = 7
    service_rounds: int = 15


async def measure_ratios(effort: CheckEffort, tell: Callable[[str], None]) -> Measured:
    """Raises WrongVectors, StartFailed, RequestFailed, EngineError and CheckpointError."""
    measured = Measured()
    meter = CpuMeter({"ours": [os.getpid()]})
    measure_kernel_ratios(effort.kernel_rounds, measured, tell)
    measured.others_cores = meter.cores()[OTHERS]
    await measure_service_ratios(effort.service_rounds, measured, tell)
    return measured
