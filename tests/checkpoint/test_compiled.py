"""Which library is used."""

import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from checkpoint.compiled import compiled_library


def test_library_that_is_older_than_its_source_is_not_used(tmp_path: Path) -> None:
    assert compiled_library(tmp_path, "_fast") is None
    library, source = tmp_path / f"_fast{EXTENSION_SUFFIXES[0]}", tmp_path / "fast.cpp"
    library.touch()
    assert compiled_library(tmp_path, "_fast") == library  # as it is installed
    source.touch()
    os.utime(library, (2, 2))
    os.utime(source, (1, 1))
    assert compiled_library(tmp_path, "_fast") == library
    os.utime(source, (3, 3))
    assert compiled_library(tmp_path, "_fast") is None
