"""Where limits are counted."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from auth.calendar import Period
from auth.holder import Holder
from auth.limits.demand import Demand
from auth.limits.standing import Standing

# Tokens used in the current UTC day or month, as the database knows. None: it cannot be asked; then
# counting begins at 0, and it is asked again within RESEED_S. A store that shares its counts with
# others asks again whatever it was told.
Seed = Callable[[Holder, Period], Awaitable[int | None]]
RESEED_S = 60.0


class LimitStore(Protocol):
    """Counts what holders use."""

    async def take(self, demand: Demand) -> Standing:
        """Count all of it, or nothing where any part does not fit."""
        ...

    async def give_back(self, taken: Demand) -> None:
        """Undo what a `Standing` says was taken: costs are returned, slots end. Never raises."""
        ...


class ScriptRunner(Protocol):
    """Runs Lua in a Redis, each call once at most."""

    async def run(self, text: str, keys: Sequence[str], *arguments: str | int | float) -> Any:
        """The raw answer, within about a second.

        Raises `redis.exceptions.RedisError`, `OSError` or `TimeoutError`.
        """
        ...
