"""Kernels in C++: found, loaded and, where `make sanitize` says so, those with its checks."""

import os
from pathlib import Path
from typing import Any

import pytest
from cpu_paths import ONLY_IN_CPP

from engine.cpu.binding import compiled, load

HERE = Path(__file__).parent
RUNS_ANYWHERE = "test_choice.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What calls the kernels says why where it cannot: a processor without AVX-512, or an
    installation without a compiler. That they are there if they can be is a test of test_choice.
    """
    for item in items:
        if item.path.parent == HERE and item.path.name != RUNS_ANYWHERE:
            item.add_marker(ONLY_IN_CPP)


@pytest.fixture(scope="session")
def library() -> Any:
    path = os.environ.get("SANITIZED_KERNELS") or compiled()
    return load(Path(str(path)))
