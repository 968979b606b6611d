"""The one rule of admission. Pure."""

from dataclasses import dataclass
from typing import Literal

from transport.protocols import Backlog


@dataclass(eq=False)
class Refused(Exception):
    """The backlog would keep the request waiting too long."""

    reason: Literal["queue", "deadline"]
    retry_after_s: float


def admit(backlog: Backlog, max_queue_s: float, left_s: float) -> None:
    """Refuse when the tokens already ahead take longer than allowed, or than the caller waits.

    The request's own tokens do not count, so that an idle server never refuses. Until the speed
    is known, everything is admitted.
    """
    if backlog.tokens_per_s is None:
        return
    wait_s = backlog.tokens / backlog.tokens_per_s
    if wait_s > max_queue_s:
        raise Refused("queue", wait_s - max_queue_s)
    if wait_s > left_s:
        raise Refused("deadline", wait_s - left_s)
