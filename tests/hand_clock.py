"""A clock that only the test moves."""


class HandClock:
    """Seconds since 1970."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
