"""How those who call an app are known, and who hears of them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from auth.authenticator import Authenticator
from auth.limits.quota import Allowance
from auth.principal import Principal


@dataclass(frozen=True, eq=False)
class Callers:
    authenticator: Authenticator
    # Hears of each caller whose key was accepted, whatever comes of the request.
    seen: Callable[[Principal], None]
    # What is left to one whose request asked no limit, as `Quotas.look` tells.
    look: Callable[[Principal], Awaitable[Allowance]]
