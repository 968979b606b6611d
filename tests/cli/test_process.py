"""How a serving command's process ends."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

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


PREAMBLE = """
import asyncio, cli.console, cli.process, cli.settings
from observability.logs import get_logger
async def serve(settings):
    {body}
    return 0
cli.process.run_process(serve, cli.settings.load_settings({{}}, {{}}))
"""
TALKS = """
    for number in range(20_000):
        get_logger().info("said", number=number)
    cli.console.say("a banner")
"""


def started(body: str, **streams: Any) -> subprocess.Popen[bytes]:
    program = PREAMBLE.format(body=body.strip())
    return subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, **streams)


def test_process_serves_and_ends_while_neither_log_nor_console_has_room() -> None:
    with Path("/dev/full").open("w") as full, started(TALKS, stdout=full, stderr=full) as process:
        assert process.wait(timeout=20) == 0


def test_process_serves_and_ends_while_nobody_reads_its_log() -> None:
    with started(TALKS, stdout=subprocess.PIPE) as process:
        assert process.wait(timeout=20) == 0


def test_process_serves_and_ends_when_its_readers_are_gone() -> None:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(f"await asyncio.sleep(0.1)\n{TALKS}", **streams) as process:
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()
        assert process.wait(timeout=20) == 0


def test_process_writes_its_last_lines_before_it_ends() -> None:
    with started(TALKS.replace("20_000", "2_000"), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = [json.loads(line) for line in process.stdout]
        assert process.wait(timeout=20) == 0
    assert [line["number"] for line in lines] == list(range(2_000))


def test_callback_that_fails_is_told_of_without_its_arguments() -> None:
    body = """
    loop = asyncio.get_running_loop()
    loop.call_soon(int, b"SECRET")
    loop.create_task(asyncio.wait_for(asyncio.to_thread(int, "SECRET"), 5))
    await asyncio.sleep(0.1)
"""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with started(body, **streams) as process:
        output, _ = process.communicate(timeout=20)
    assert b"SECRET" not in output
    assert [json.loads(line)["event"] for line in output.splitlines()] == ["loop_failed"] * 2
