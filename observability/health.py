"""Whether this process lives, and whether it should be sent requests."""

from collections.abc import Callable

Check = Callable[[], str | None]


class Health:
    """Readiness is the conjunction of named checks; each says None, or why not."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        self._checks[name] = check

    def not_ready(self) -> dict[str, str]:
        """The checks that fail, with their reasons. Empty: ready."""
        reasons = {name: check() for name, check in self._checks.items()}
        return {name: reason for name, reason in reasons.items() if reason is not None}
