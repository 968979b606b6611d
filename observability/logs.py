"""JSON logs on stdout, one object a line. Text and keys never reach them: callers pass fields."""

import json
import logging
import sys
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson
import structlog

from observability.log_writer import LogWriter

Logger = Any  # structlog's bound logger has no useful static type
_Event = MutableMapping[str, Any]


def configure_logs(level: str = "info", stream: TextIO | None = None) -> None:
    """Send structlog's and the standard library's records to one stream as JSON.

    A stream with a file behind it is written by a thread, see LogWriter; another at once.

    Of what metrics and logs cost a request the access line is the most, where nothing of it is in
    a cache any more: structlog's own processors, renderer and writer take three times as long.
    """
    write = _writer_of(stream or sys.stdout)
    structlog.configure(
        processors=[_stamp, _render],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=lambda *_: _Lines(write),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_LibraryLines(write)], level=logging.WARNING, force=True)


def flush_logs(within_s: float = 1.0) -> None:
    """Before a process ends: wait until its lines are written, unless nobody takes them."""
    if _writer is not None:
        _writer.flush(within_s)


def count_dropped_lines(count: Callable[[int], object]) -> None:
    """`count` is called with how many lines were dropped, from any thread."""
    if _writer is not None:
        _writer.count_dropped(count)


def get_logger() -> Logger:
    return structlog.get_logger()


def place_of(error: BaseException) -> dict[str, Any]:
    """What is told of an exception: its class and where it was raised.

    No message and no traceback: they may hold what a client sent.
    """
    fields: dict[str, Any] = {"error": type(error).__name__}
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is not None:
        fields |= {"file": trace.tb_frame.f_code.co_filename, "line": trace.tb_lineno}
    return fields


_writer: LogWriter | None = None  # of this process, as logs are


def _writer_of(stream: TextIO | None) -> Callable[[bytes], object]:
    global _writer
    _writer = None
    if stream is None:  # the process was started with its stdout closed
        return lambda line: None
    try:
        fd = stream.fileno()
    except OSError:  # a text of its own, such as io.StringIO
        return lambda line: stream.write(line.decode() + "\n")
    _writer = LogWriter(fd)
    return _writer.write


class _Lines:
    """What structlog hands its lines to."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = write


class _LibraryLines(logging.Handler):
    """What libraries tell, without what they tell it of: that may be what a client sent.

    Their messages stay templates, and an exception is its class and place. The engine knows token
    ids alone and tells none: its messages are whole.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        template = record.msg
        if not isinstance(template, str):
            template = type(template).__name__
        elif record.name.partition(".")[0] == "engine":
            template = record.getMessage()
        event: _Event = {"event": template.partition("\n")[0], "logger": record.name}
        if record.exc_info and record.exc_info[1] is not None:
            event.update(place_of(record.exc_info[1]))
        level = record.levelname.lower()
        self._write(_render(None, level, _stamp(None, level, event)))


def _stamp(_: object, level: str, event: _Event) -> _Event:
    event["level"] = level
    event["timestamp"] = datetime.now(UTC)
    return event


def _render(_: object, _level: str, event: _Event) -> bytes:
    try:
        return orjson.dumps(event, default=repr, option=orjson.OPT_UTC_Z)
    except TypeError:  # half a surrogate pair, a number beyond 64 bits: no reason to fail
        return json.dumps(event, default=str).encode()
