"""A limit stands in the way of a request."""

from dataclasses import dataclass
from typing import Literal

from auth.errors import AuthError
from auth.limits.standing import BucketStanding

LimitName = Literal["rpm", "tpm", "concurrency", "daily", "monthly"]


@dataclass(eq=False)
class LimitExceeded(AuthError):
    """Nothing was counted of what was asked for."""

    limit: LimitName
    holder_kind: Literal["key", "project"]
    bound: int  # requests or tokens a minute, requests at a time, tokens of a day or month
    most: int  # the most that fits at once: of rpm and tpm the burst, else `bound`
    used: int
    requested: int
    wait_s: float  # when to ask again
    never: bool  # one request above `most`: waiting does not help
    resets_at: float | None  # of a budget: the end of its period, seconds since 1970
    requests: BucketStanding | None  # for the headers: the tightest of key and project
    tokens: BucketStanding | None

    def __str__(self) -> str:
        return (
            f"{self.limit} of the {self.holder_kind}: limit {self.bound}, used {self.used}, "
            f"requested {self.requested}"
        )
