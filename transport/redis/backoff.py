"""How long to wait before the next attempt to reach Redis."""

import random

_FIRST_S, _MOST_S = 0.05, 2.0


class Backoff:
    """At most twice as long after each failure, and any part of that: clients come apart."""

    def __init__(self) -> None:
        self.failures = 0

    def next_s(self) -> float:
        most_s = min(_MOST_S, _FIRST_S * 2**self.failures)
        self.failures += 1
        return random.uniform(0, most_s)  # noqa: S311 - spreads attempts, guards nothing

    def reset(self) -> None:
        self.failures = 0
