"""What is counted, and under what."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Use(NamedTuple):
    """A row of `usage`, without its counts. Ordered as the primary key is."""

    day: int  # 20261129, UTC
    kid: str  # '': anonymous
    project: str  # '': none
    model: str
    kind: str  # embed | rerank


@dataclass(eq=False)
class Count:
    requests: int = 0
    tokens: int = 0


@dataclass(frozen=True, eq=False)
class Batch:
    """What one gateway process adds in one transaction. Never changed once it was sent: it may
    have been written although no answer came, and is then known by its sequence number."""

    gateway: str  # a UUID in hex, new with each process
    sequence: int  # from 1
    at: int  # seconds since 1970
    counts: Mapping[Use, Count]
    last_used: Mapping[str, int]  # by kid, seconds since 1970
