"""Deliveries that this worker has not answered yet."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from transport.redis.entries import Entry, StreamDelivery

# Redis gives out no entry that is gone: what it has just given was wanted then.
_FRESH_S = 0.05


@dataclass(eq=False)
class _Held:
    delivery: StreamDelivery
    received_s: float
    was_asked: bool = False


class HeldDeliveries:
    """By queue and entry. A job can be here twice, when its gateway submitted it again."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], _Held] = {}

    def add(self, delivery: StreamDelivery) -> None:
        held = _Held(delivery, asyncio.get_running_loop().time())
        self._held[_key(delivery.entry)] = held

    def drop(self, delivery: StreamDelivery) -> None:
        self._held.pop(_key(delivery.entry), None)

    def ids(self, queue: str) -> list[str]:
        return [entry_id for name, entry_id in self._held if name == queue]

    def is_surely_wanted(self, delivery: StreamDelivery) -> bool:
        """The first question soon after the receipt needs no round trip."""
        held = self._held.get(_key(delivery.entry))
        if held is None or held.was_asked:
            return False
        held.was_asked = True
        return asyncio.get_running_loop().time() - held.received_s < _FRESH_S

    def __iter__(self) -> Iterator[StreamDelivery]:
        return iter([held.delivery for held in self._held.values()])

    def __len__(self) -> int:
        return len(self._held)


def by_queue(deliveries: Iterable[StreamDelivery]) -> dict[str, list[StreamDelivery]]:
    found: defaultdict[str, list[StreamDelivery]] = defaultdict(list)
    for delivery in deliveries:
        found[delivery.entry.queue].append(delivery)
    return found


def _key(entry: Entry) -> tuple[str, str]:
    return entry.queue, entry.id
