"""The bar of a run."""

from io import StringIO

from rich.console import Console

from bench.progress import Bar


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
