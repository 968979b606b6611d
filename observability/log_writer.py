"""Lines on their way to a file, a pipe or a terminal that may be full, closed, or not be read."""

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

_MOST_LINES = 8_192  # that wait: some megabytes
_GATHER_S = 0.01  # lines that come sooner after a write are written together


class LogWriter:
    """A queue and a thread, so that whoever logs neither waits nor fails.

    Lines that find no room, and those that cannot be written, are dropped and counted.
    """

    def __init__(self, fd: int, most_lines: int = _MOST_LINES) -> None:
        self._fd = fd
        self._most_lines = most_lines
        self._lines: deque[bytes] = deque()  # until they are written
        self._waiting = threading.Event()
        self._torn = False  # the last line that was written has no end
        self._dropped = 0  # before anybody counted
        self._count: Callable[[int], object] | None = None
        # A daemon, and no buffer of Python's: neither may hold up the interpreter's end.
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def write(self, line: bytes) -> None:
        """`line`: without its end."""
        if len(self._lines) >= self._most_lines:
            self._drop(1)
            return
        self._lines.append(line)
        if not self._waiting.is_set():
            self._waiting.set()

    def count_dropped(self, count: Callable[[int], object]) -> None:
        """`count` is called with the number of those dropped so far, and of each further drop."""
        self._count = count
        dropped, self._dropped = self._dropped, 0
        if dropped:
            count(dropped)

    def flush(self, within_s: float) -> bool:
        """Whether all that was told has been written, or dropped."""
        until_s = time.monotonic() + within_s
        while self._lines and time.monotonic() < until_s:
            time.sleep(0.001)
        return not self._lines

    def _drop(self, lines: int) -> None:
        if self._count is not None:
            self._count(lines)
        else:
            self._dropped += lines

    def _run(self) -> None:
        while True:
            self._waiting.wait()
            self._waiting.clear()
            while self._lines:
                self._write_some()
            time.sleep(_GATHER_S)

    def _write_some(self) -> None:
        """As many as a pipe takes undivided, as other processes may write to it too."""
        lines = [self._lines[0]]
        size = len(lines[0])
        while len(lines) < len(self._lines):
            size += len(self._lines[len(lines)]) + 1
            if size >= select.PIPE_BUF:
                break
            lines.append(self._lines[len(lines)])
        text = b"\n".join(lines) + b"\n"
        try:
            self._write_all(b"\n" + text if self._torn else text)
        except OSError:
            self._drop(len(lines))
        for _ in lines:
            self._lines.popleft()

    def _write_all(self, text: bytes) -> None:
        while text:
            try:
                written = os.write(self._fd, text)
            except BlockingIOError:  # whoever shares it has made it so
                select.select((), (self._fd,), ())
                continue
            self._torn = text[:written][-1:] != b"\n"
            text = text[written:]
