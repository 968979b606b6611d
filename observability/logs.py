"""JSON logs on stdout, one object a line. Text and keys never reach them: callers pass fields."""

import logging
import sys
from typing import Any, TextIO

import orjson
import structlog

Logger = Any  # structlog's bound logger has no useful static type


def configure_logs(level: str = "info", stream: TextIO | None = None) -> None:
    """Send structlog's and the standard library's records to one stream as JSON."""
    stream = stream or sys.stdout
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer(serializer=_dumps)],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processor=structlog.processors.JSONRenderer(serializer=_dumps),
            foreign_pre_chain=shared,
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


def _dumps(value: Any, default: Any = None, **_: Any) -> str:
    return orjson.dumps(value, default=default).decode()
