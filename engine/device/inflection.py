"""The total from which on the device, not the launching of its work, sets the time of a step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """One eager forward, launched while the device had nothing else to do."""

    launch_s: float  # of the host, to enqueue all of it
    device_s: float  # between an event in front of it and one behind it, had both been enqueued


def inflection_point(buckets: Sequence[int], measure: Callable[[int], Timing]) -> int:
    """The first of the ascending totals whose device time exceeds its launch time.

    The largest where none does. Device time grows with the total and launch time hardly does, so
    a binary search will do: about seven totals of 84, each measured two or three times.
    """
    first, last = 0, len(buckets) - 1
    while first < last:
        middle = (first + last) // 2
        if _exceeds(buckets[middle], measure):
            last = middle
        else:
            first = middle + 1
    return buckets[first]


def _exceeds(tokens: int, measure: Callable[[int], Timing]) -> bool:
    """Two of at most three measurements say so: one that the host interrupted decides nothing."""
    for_it = against = 0
    while max(for_it, against) < 2:
        timing = measure(tokens)
        if timing.device_s > timing.launch_s:
            for_it += 1
        else:
            against += 1
    return for_it > against
