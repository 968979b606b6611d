"""A library in a process of its own: some end it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.tokenizers.environment import installed_python
from bench.tokenizers.libraries import OURS

_HERE = Path(__file__).parent


class LibraryFailed(Exception):
    """It does not take this tokenizer.json, or it ended; the message is its last line."""


@dataclass
class LibraryProcess:
    """One library with one tokenizer.json loaded, on one thread."""

    name: str
    version: str
    _process: "subprocess.Popen[str]"

    @classmethod
    def start(cls, name: str, tokenizer: Path) -> "LibraryProcess":
        """Raises LibraryFailed, LibrariesMissing."""
        python = Path(sys.executable) if name == OURS else installed_python()
        one_thread = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        process = subprocess.Popen(
            [python, "-P", _HERE / "worker.py", name, tokenizer, _HERE.parents[1]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **one_thread},
        )
        started = cls(name, "", process)
        started.version = started._read()["version"]
        return started

    def digests(self, texts: Path) -> list[str | None]:
        """Of the ids of each text in a file of JSON; None where it failed."""
        found: list[str | None] = self._ask({"check": str(texts)})["digests"]
        return found

    def seconds(self, texts: list[str]) -> float:
        """CPU time of all its threads."""
        return float(self._ask({"time": texts})["seconds"])

    def close(self) -> None:
        self._process.communicate()

    def _ask(self, job: dict[str, object]) -> Any:
        assert self._process.stdin is not None  # noqa: S101
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # _read says why
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None  # noqa: S101
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        _, told = self._process.communicate()
        said, code = told.strip().splitlines(), self._process.returncode
        # An exception is the last line; a panic says where, and behind it what.
        panic = [
            f"panicked: {said[at + 1]}"
            for at, line in enumerate(said[:-1])
            if "panicked at" in line
        ]
        raise LibraryFailed((panic or said[-1:] or [f"it ended with {code}"])[0][:160])
