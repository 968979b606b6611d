"""What a person reads: on stderr, since stdout carries JSON logs and results; never wrapped."""

from rich.console import Console


def say(*lines: str) -> None:
    _stderr().print(*lines, sep="\n", markup=False, soft_wrap=True)


def complain(error: object) -> None:
    """One line with the reason something was refused."""
    _stderr().print(f"florilege: {error}", style="red", markup=False, soft_wrap=True)


def _stderr() -> Console:
    return Console(stderr=True, highlight=False)
