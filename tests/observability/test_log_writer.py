"""Lines that nobody reads, or that no disk has room for, harm nothing but the log."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from observability.log_writer import LogWriter


class Pipe:
    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()

    def close_reader(self) -> None:
        os.close(self.read_fd)
        self.read_fd = -1

    def lines(self, number: int) -> list[bytes]:
        """So many at least."""
        text = b""
        while text.count(b"\n") < number:
            text += os.read(self.read_fd, 65_536)
        assert text.endswith(b"\n")
        return text.splitlines()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    if pipe.read_fd >= 0:
        pipe.close_reader()  # a writer that waits ends with it


def line(number: int) -> bytes:
    return b"%06d " % number + b"x" * 193


def test_reader_that_stalls_holds_up_nobody_and_what_found_no_room_is_counted(pipe: Pipe) -> None:
    writer, dropped = LogWriter(pipe.write_fd, most_lines=1_000), [0]
    began_s = time.monotonic()
    for number in range(3_000):  # a pipe holds 64 KiB
        writer.write(line(number))
    writer.count_dropped(dropped.append)
    assert time.monotonic() - began_s < 5
    began_s = time.monotonic()
    assert not writer.flush(within_s=0.1)
    assert time.monotonic() - began_s < 1
    written = pipe.lines(3_000 - sum(dropped))
    assert writer.flush(within_s=5)
    assert 1_000 <= len(written) == 3_000 - sum(dropped)
    assert written == sorted(written)
    assert {len(one) for one in written} == {200}
    writer.write(b"once more")
    assert pipe.lines(1) == [b"once more"]


def test_pipe_that_is_closed_costs_lines_and_nothing_else(pipe: Pipe) -> None:
    writer, dropped = LogWriter(pipe.write_fd), [0]
    writer.count_dropped(dropped.append)
    pipe.close_reader()
    for number in range(50):
        writer.write(line(number))
    assert writer.flush(within_s=5)
    assert sum(dropped) == 50


def test_full_disk_costs_lines_and_nothing_else() -> None:
    with Path("/dev/full").open("wb") as full:
        writer, dropped = LogWriter(full.fileno()), [0]
        for number in range(50):
            writer.write(line(number))
        assert writer.flush(within_s=5)
        writer.count_dropped(dropped.append)  # told of those before, too
        assert sum(dropped) == 50


def test_pipe_that_others_made_not_to_block_gets_every_line(pipe: Pipe) -> None:
    flags = fcntl.fcntl(pipe.write_fd, fcntl.F_GETFL)
    fcntl.fcntl(pipe.write_fd, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    writer = LogWriter(pipe.write_fd)
    for number in range(1_000):
        writer.write(line(number))
    assert pipe.lines(1_000) == [line(number) for number in range(1_000)]


def test_line_after_one_that_was_cut_stands_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = os.write, [0]

    def fills_up(fd: int, text: bytes) -> int:
        calls[0] += 1
        if calls[0] == 2:
            raise OSError(errno.ENOSPC, "no room")
        return write(fd, text[:3] if calls[0] == 1 else text)

    monkeypatch.setattr(os, "write", fills_up)
    with (tmp_path / "log").open("wb") as log:
        writer = LogWriter(log.fileno())
        for text in (b"first", b"second"):
            writer.write(text)
            assert writer.flush(within_s=5)
    assert (tmp_path / "log").read_bytes() == b"fir\nsecond\n"


def test_one_write_is_no_longer_than_a_pipe_takes_undivided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, sizes = os.write, list[int]()

    def measured(fd: int, text: bytes) -> int:
        sizes.append(len(text))
        return write(fd, text)

    monkeypatch.setattr(os, "write", measured)
    with (tmp_path / "log").open("wb") as log:
        writer = LogWriter(log.fileno())
        for number in range(200):
            writer.write(line(number))
        assert writer.flush(within_s=5)
    assert sum(sizes) == 200 * 201
    assert max(sizes) <= 4_096
    assert len(sizes) < 100
