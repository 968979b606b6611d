"""How long something has failed."""

import asyncio


class Failing:
    """From the first failure to the last, with no success between.

    So one failure is none, and what is not tried does not fail.
    """

    def __init__(self) -> None:
        self._first_s: float | None = None
        self._last_s = 0.0

    def failed(self) -> None:
        self._last_s = asyncio.get_running_loop().time()
        if self._first_s is None:
            self._first_s = self._last_s

    def succeeded(self) -> None:
        self._first_s = None

    @property
    def lasted_s(self) -> float:
        return 0.0 if self._first_s is None else self._last_s - self._first_s
