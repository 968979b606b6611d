"""What happens in the transport that somebody may want to count."""

from collections.abc import Callable
from typing import Literal

TransportEvent = Literal[
    "redelivered",  # a job came to a worker a second time: the first died, or was stopped
    "resubmitted",  # a gateway submitted a job again, because Redis forgot it
    "reconnected",
    "dead_lettered",  # a job that killed its workers was given up
    "duplicate_reply",  # an answer that nobody waits for
    "unreadable_reply",  # what came as an answer, and is none, or one of another version
    "late_finish",  # an answer to a job that was answered, cancelled or forgotten meanwhile
]
# What was asked for, and the seconds from the call to the answer.
OnAnswer = Callable[[str, float], None]
OnEvent = Callable[[TransportEvent, str], None]  # the event, and the model; '' where it is of none


def ignore(event: TransportEvent, model: str) -> None:
    """For those who count nothing."""


def measure_nothing(op: str, seconds: float) -> None:
    """For those who measure nothing."""
