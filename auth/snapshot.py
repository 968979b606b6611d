"""All keys and projects at one revision of the store."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from auth.audit import LastChange
from auth.record import KeyRecord, Limits


@dataclass(frozen=True)
class Snapshot:
    """Read by every request, written by none: a change of the store is a new snapshot."""

    revision: int = 0  # of the store when the keys were read; 0: never written
    keys: Mapping[str, KeyRecord] = field(default_factory=dict)  # by kid, the dead ones too
    projects: Mapping[str, Limits] = field(default_factory=dict)  # by name
    last_change: LastChange | None = None  # that the store had written down
    fingerprints: Mapping[int, bytes] = field(default_factory=dict, repr=False)  # by pepper version


EMPTY = Snapshot()
