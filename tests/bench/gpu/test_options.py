"""The command line of the GPU bench."""

from pathlib import Path

import pytest

from bench.gpu.options import parse
from bench.gpu.parts import PARTS
from bench.gpu.shapes import MODELS


def test_all_parts_and_models_are_measured_within_seven_minutes() -> None:
    options = parse([])
    assert options.parts == tuple(PARTS)
    assert options.models == tuple(MODELS)
    assert options.seconds < 7 * 60


def test_parts_run_in_their_own_order_whichever_they_are_named_in() -> None:
    options = parse(["--parts", "clients,machine", "--models", "bge-m3", "--out", "here"])
    assert options.parts == ("machine", "clients")
    assert options.models == ("bge-m3",)
    assert options.directory == Path("here")


@pytest.mark.parametrize("option", ["--parts=speed", "--models=gpt-2", "--device=first"])
def test_command_line_that_cannot_be_is_refused(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse([option])
    assert repr(option.partition("=")[2]) in capsys.readouterr().err
