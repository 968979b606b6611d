"""What a suite says while it runs, and why it cannot: on stderr, beside the report."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


def tell(doing: str) -> None:
    Console(stderr=True).print(doing, style="dim")


@contextmanager
def exit_on(*failures: type[Exception]) -> Iterator[None]:
    """These end the command with 1 and a line that says why."""
    try:
        yield
    except failures as error:
        Console(stderr=True).print(f"bench: {error}", style="red", markup=False)
        raise SystemExit(1) from None
