"""Who is limited: a key, or a project with all of its keys."""

from dataclasses import dataclass
from typing import Literal

from auth.record import Limits


@dataclass(frozen=True)
class Holder:
    """One who has limits of their own, whatever other holder the same request counts against."""

    kind: Literal["key", "project"]
    name: str  # the key id, or the name of the project
    limits: Limits
