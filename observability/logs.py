"""JSON logs on stdout, one object a line. Text and keys never reach them: callers pass fields."""

import logging
import sys
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson
import structlog

Logger = Any  # structlog's bound logger has no useful static type
_Event = MutableMapping[str, Any]


def configure_logs(level: str = "info", stream: TextIO | None = None) -> None:
    """Send structlog's and the standard library's records to one stream as JSON.

    Of what metrics and logs cost a request the access line is the most, where nothing of it is in
    a cache any more: structlog's own processors, renderer and writer take three times as long.
    """
    stream = stream or sys.stdout
    structlog.configure(
        processors=[_stamp, _render],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=lambda *_: _Lines(stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processor=lambda *event: _render(*event).decode(), foreign_pre_chain=[_stamp]
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


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


class _Lines:
    """Writes whole lines, each at once: what a process said last is what is looked for."""

    def __init__(self, stream: TextIO) -> None:
        binary = getattr(stream, "buffer", None)  # a text of its own, such as io.StringIO, has none
        write: Callable[[bytes], object] = binary.write if binary else _encoded(stream)
        flush = stream.flush if binary is None else binary.flush

        def write_line(line: bytes) -> None:
            write(line + b"\n")
            flush()

        self.debug = self.info = self.warning = self.error = self.critical = write_line


def _encoded(stream: TextIO) -> Callable[[bytes], object]:
    return lambda line: stream.write(line.decode())


def _stamp(_: object, level: str, event: _Event) -> _Event:
    event["level"] = level
    event["timestamp"] = datetime.now(UTC)
    if "exc_info" in event:
        event = structlog.processors.format_exc_info(None, level, event)
    return event


def _render(_: object, _level: str, event: _Event) -> bytes:
    return orjson.dumps(event, default=repr, option=orjson.OPT_UTC_Z)
