import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_serving_compiles_nothing_anew() -> None:
    """Steps differ in tokens, slots and where in a buffer their ids begin."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = f"{ROOT}:{ROOT / 'tests'}"
    environment["TRITON_CACHE_DIR"] = str(ROOT / "build/triton")
    command = [sys.executable, "-m", "ahead_of_time.steps"]
    printed = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    ).stdout
    kernels: dict[str, int] = json.loads(printed)
    assert kernels
    assert {name: count for name, count in kernels.items() if count != 1} == {}
