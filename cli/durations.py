"""Spans of time as people write them: 90s, 15m, 12h, 30d, 2w."""

import re

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(rf"([0-9]{{1,9}})([{''.join(_SECONDS)}])")


def parse_duration(text: str) -> int:
    """Seconds. Raises ValueError, which says what was expected."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no span of time, such as 90s, 15m, 12h, 30d or 2w")
    return int(match[1]) * _SECONDS[match[2]]
