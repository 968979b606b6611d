"""How a serving command's process ends."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("engine.errors.DeviceLost('an illegal memory access')", 70),
        ("engine.errors.EngineError('too little memory')", 78),
        ("cli.process.StoppedEarly()", 0),
        ("ValueError('a defect')", 1),
    ],
)
def test_exit_code_says_whether_a_restart_may_help(error: str, code: int) -> None:
    program = f"""
import cli.process, cli.settings, engine.errors
async def serve(settings):
    raise {error}
cli.process.run_process(serve, cli.settings.load_settings({{}}, {{}}))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == code, ended.stderr
    assert ("Traceback" in ended.stderr) == (code == 1)
