"""Every YAML file below deploy/, but for templates, which are none before they are rendered."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_linter_has_nothing_to_say() -> None:
    yamllint = Path(sys.executable).with_name("yamllint")
    command = [yamllint, "--strict", "--config-file", "deploy/.yamllint", "deploy"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
