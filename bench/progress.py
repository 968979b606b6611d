"""What a suite says while it runs, and why it cannot: on stderr, beside the report."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

INTERRUPTED = "interrupted"


def tell(doing: str) -> None:
    Console(stderr=True).print(doing, style="dim")


class Bar:
    """Cases done of those to do. On a terminal alone; what is told is told elsewhere too.

    Drawn when a case begins, never meanwhile: a thread that draws would hold the lock that the
    clients need, and be measured with the server.
    """

    def __init__(self, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._progress = Progress(
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
            TimeElapsedColumn(),
            console=console,
            auto_refresh=False,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("check", total=0)
        self._total, self._begun = 0, 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def expect(self, cases: int) -> None:
        """So many more, or fewer."""
        self._total += cases
        self._progress.update(self._task, total=self._total)

    def begin(self, case: str) -> None:
        self._progress.update(self._task, description=case, completed=self._begun, refresh=True)
        self._begun += 1

    def tell(self, done: str) -> None:
        self._progress.console.print(done, style="dim", markup=False, highlight=False)


async def kept(
    measuring: Awaitable[None], measured: Callable[[], object], *failures: type[Exception]
) -> str:
    """Why `measuring` ended early, with something measured that is worth keeping; '' if it did not.

    Raises what ended it where nothing was.
    """
    try:
        await measuring
    except asyncio.CancelledError:
        if not measured():
            raise
        return INTERRUPTED
    except failures as error:
        if not measured():
            raise
        return str(error) or repr(error)
    return ""


def exit_if(ended: str) -> None:
    """As `exit_on` does, once what was measured is written."""
    if ended:
        Console(stderr=True).print(f"bench: {ended}", style="red", markup=False)
        raise SystemExit(128 + signal.SIGINT if ended == INTERRUPTED else 1)


@contextmanager
def exit_on(*failures: type[Exception]) -> Iterator[None]:
    """These end the command with 1 and a line that says why; Ctrl-C ends it with 130."""
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except failures as error:
        Console(stderr=True).print(f"bench: {error}", style="red", markup=False)
        raise SystemExit(1) from None
