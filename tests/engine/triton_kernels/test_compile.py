"""Every kernel of the engine compiles for a Hopper GPU, and keeps what it computes in registers."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from ahead_of_time.cases import DISPATCH

ROOT = Path(__file__).parents[3]
Kernel = Mapping[str, int | str]
# What a program may have of a multiprocessor of the H200.
MAX_SHARED_BYTES = 227 * 1024


@pytest.fixture(scope="module")
def kernels() -> list[Kernel]:
    """In a process of its own: here triton interprets."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = f"{ROOT}:{ROOT / 'tests'}"
    environment["TRITON_CACHE_DIR"] = str(ROOT / "build/triton")
    command = [sys.executable, "-W", "error", "-m", "ahead_of_time", "dispatch"]
    lines = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    ).stdout
    return [json.loads(line) for line in lines.splitlines()]


@pytest.mark.timeout(180)  # half a second a kernel where nothing is cached
def test_each_launch_has_a_kernel(kernels: list[Kernel]) -> None:
    assert {kernel["case"] for kernel in kernels} == {case.name for case in DISPATCH}


def test_no_kernel_spills_registers(kernels: list[Kernel]) -> None:
    assert [kernel for kernel in kernels if kernel["spilled_bytes"]] == []


def test_each_program_fits_a_multiprocessor(kernels: list[Kernel]) -> None:
    assert [kernel for kernel in kernels if int(kernel["shared_bytes"]) > MAX_SHARED_BYTES] == []
