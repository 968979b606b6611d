"""What a person reads: on stderr, since stdout carries JSON logs and results; never wrapped."""

import contextlib
import io
import sys

from rich.console import Console


def say(*lines: str) -> None:
    _print(*lines)


def complain(error: object) -> None:
    """One line with the reason something was refused."""
    _print(f"florilege: {error}", style="red")


def _print(*lines: str, style: str | None = None) -> None:
    """Whether or not anybody reads it: rich's own writing would end the process if nobody does."""
    if sys.stderr is None:  # it was started with it closed
        return
    text = io.StringIO()
    console = Console(file=text, force_terminal=sys.stderr.isatty() or None, highlight=False)
    console.print(*lines, sep="\n", style=style, markup=False, soft_wrap=True)
    with contextlib.suppress(OSError):
        sys.stderr.write(text.getvalue())
        sys.stderr.flush()
