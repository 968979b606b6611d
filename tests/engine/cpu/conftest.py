"""Kernels in C++: found, loaded and, where `make sanitize` says so, those with its checks."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.cpu.binding import compiled, cpu_fault, load

HERE = Path(__file__).parent
RUNS_ANYWHERE = "test_choice.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What calls the kernels says why where it cannot: a processor without AVX-512, or an
    installation without a compiler. That they are there if they can be is a test of test_choice.
    """
    fault = cpu_fault(torch.bfloat16)
    if fault is None:
        return
    for item in items:
        if item.path.parent == HERE and item.path.name != RUNS_ANYWHERE:
            item.add_marker(pytest.mark.skip(reason=f"kernels in C++: {fault}"))


@pytest.fixture(scope="session")
def library() -> Any:
    path = os.environ.get("SANITIZED_KERNELS") or compiled()
    return load(Path(str(path)))
