"""What a caller may still ask for, as OpenAI's headers say it. Pure."""

import math

from auth.limits.standing import BucketStanding

_PREFIX = "x-ratelimit-"
_UNITS = (("h", 3600), ("m", 60))


def rate_headers(requests: BucketStanding | None, tokens: BucketStanding | None) -> dict[str, str]:
    """`x-ratelimit-{limit,remaining,reset}-{requests,tokens}`; none for what has no limit.

    Never a bare `x-ratelimit-reset`: some SDKs take its value for a Unix time and sleep until then.
    """
    headers = {}
    for unit, standing in (("requests", requests), ("tokens", tokens)):
        if standing is not None:
            headers[f"{_PREFIX}limit-{unit}"] = str(standing.limit)
            headers[f"{_PREFIX}remaining-{unit}"] = str(standing.remaining)
            headers[f"{_PREFIX}reset-{unit}"] = duration(standing.reset_s)
    return headers


def is_rate_header(name: str) -> bool:
    return name.startswith(_PREFIX)


def duration(seconds: float) -> str:
    """A span of time as Go writes it: `0s`, `20ms`, `1s`, `6m0s`; rounded up."""
    milliseconds = math.ceil(round(seconds * 1000, 3))
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    left_s, text = milliseconds / 1000, ""
    for unit, size in _UNITS:
        count, left_s = divmod(left_s, size)
        if count or text:
            text += f"{int(count)}{unit}"
    return f"{text}{left_s:.3f}".rstrip("0").rstrip(".") + "s"
