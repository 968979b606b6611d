"""The bar of a run."""

import sys
from io import StringIO

import pytest
from rich.console import Console

import bench.__main__
from bench.progress import Bar, exit_on, kept


def shown(*, terminal: bool) -> str:
    out = StringIO()
    with Bar(Console(file=out, force_terminal=terminal, width=100)) as bar:
        bar.expect(2)
        bar.begin("latency 1 × 1 × 16")
        bar.tell("latency: 1 × 1 × 16: [2.00] ms")
        bar.begin("latency 1 × 1 × 128")
    return out.getvalue()


def test_bar_counts_the_cases_on_a_terminal() -> None:
    text = shown(terminal=True)
    assert "latency 1 × 1 × 128" in text
    assert "1/2" in text


def test_without_a_terminal_there_is_no_bar_but_what_is_told() -> None:
    assert shown(terminal=False) == "latency: 1 × 1 × 16: [2.00] ms\n"


def test_interrupted_command_ends_without_a_traceback() -> None:
    with pytest.raises(SystemExit) as ended, exit_on(ValueError):
        raise KeyboardInterrupt
    assert ended.value.code == 130


async def test_failure_without_a_word_is_told_as_well() -> None:
    async def measuring() -> None:
        raise ValueError

    assert await kept(measuring(), lambda: ["a row"], ValueError) == "ValueError()"
    with pytest.raises(ValueError, match=r"^$"):
        await kept(measuring(), lambda: [], ValueError)


def test_without_its_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "latency"])
    monkeypatch.setitem(sys.modules, "aiohttp", None)  # as if it were not there
    for name in [name for name in sys.modules if name.startswith("bench.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SystemExit, match=r"pip install '\.\[bench\]'"):
        bench.__main__.main()
