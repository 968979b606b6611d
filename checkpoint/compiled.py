"""Libraries in C++ that are compiled at install, where there is a compiler."""

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path


def compiled_library(directory: Path, name: str) -> Path | None:
    """The library; None where there was no compiler for it, or its sources are newer than it is.

    What is called would otherwise read its arguments as they once were.
    """
    paths = (directory / f"{name}{suffix}" for suffix in EXTENSION_SUFFIXES)
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        return None
    sources = (*directory.glob("*.cpp"), *directory.glob("*.h"))  # in a checkout alone
    compiled_s = path.stat().st_mtime
    return None if any(source.stat().st_mtime > compiled_s for source in sources) else path
