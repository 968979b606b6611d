"""Kernels in C++: found, loaded and, where `make sanitize` says so, those with its checks."""

import os
from pathlib import Path
from typing import Any

import pytest
from cpu_paths import IN_CPP

from engine.cpu.library import compiled, load

collect_ignore_glob = [] if IN_CPP else ["test_[!c]*.py"]  # test_choice runs everywhere


@pytest.fixture(scope="session")
def library() -> Any:
    path = os.environ.get("SANITIZED_KERNELS") or compiled()
    return load(Path(str(path)))
