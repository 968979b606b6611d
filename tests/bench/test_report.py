"""Tables say what was measured, and whether it was checked."""

from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from bench.machine import Machine, describe_machine
from bench.report import markdown, print_report
from bench.results import Check, Results, Row
from bench.statistics import Latency

RESULTS = Results(
    date="2026-11-29T12:00:00+00:00",
    seed="7",
    url="http://127.0.0.1:8000",
    model="stub",
    server={"id": "stub", "dtype": "bfloat16"},
    machine=Machine("A CPU", 2, 2**34, "Linux 6", 0.25, {"python": "3.11"}, "abc123"),
    check=Check("stub in float32", 25, 0.99991),
    rows=[Row("latency", 1, 1, 16, 300, 16.0, 0.6, Latency(1.234, 12.34, 123.4, 1234), 500, 8000)],
)


def shown(results: Results) -> str:
    console = Console(file=StringIO(), width=80)
    print_report(results, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(len(line) for line in text.splitlines()) <= 80
    return str(text)


@pytest.mark.parametrize("render", [shown, markdown])
def test_report_names_model_machine_commit_and_check(render: Callable[[Results], str]) -> None:
    report = render(RESULTS)
    for part in ("stub (bfloat16)", "A CPU, 2 cores, 16 GiB", "abc123", "0.99991", "load 0.2"):
        assert part in report


def test_unchecked_run_says_so_loudly() -> None:
    unchecked = replace(RESULTS, check=None)
    assert "NOT CHECKED" in shown(unchecked)
    assert "NOT CHECKED" in markdown(unchecked)
    assert "NOT CHECKED" not in markdown(RESULTS)


def test_markdown_rows_hold_the_figures() -> None:
    report = markdown(RESULTS)
    assert "| 1 | 1 | 16 | 300 | 1.23 | 12.3 | 123 | 1,234 | 500 | 8,000 |" in report


def test_no_figure_is_cut_in_a_narrow_terminal() -> None:
    table = shown(RESULTS)
    assert "…" not in table
    assert "1,234" in table


def test_machine_is_this_one() -> None:
    machine = describe_machine()
    assert machine.cores >= 1
    assert machine.memory_bytes > 2**28
    assert {"python", "aiohttp", "numpy"} <= machine.versions.keys()
