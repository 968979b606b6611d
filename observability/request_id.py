"""Request ids: `req_` and a UUID of version 7, so that they sort by time."""

import random
import re
import time

_TRUSTED = re.compile(r"(?!sk-)[A-Za-z0-9._-]{1,64}")  # nor a key, or the beginning of one

# Ids have to differ, not to be unguessable: nothing is granted to who knows one. The system's own
# randomness takes a system call for each.
_random = random.Random()  # noqa: S311


def new_id(prefix: str) -> str:
    """`prefix` + 32 hex digits of a UUIDv7 (RFC 9562): 48 bits of milliseconds, 74 random."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & (2**48 - 1)) << 80 | _random.getrandbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76  # version
    value = value & ~(0x3 << 62) | 0x2 << 62  # variant
    return f"{prefix}{value:032x}"


def is_loggable(value: str) -> bool:
    """Whether a client's own id may be echoed and logged: no header or log injection."""
    return _TRUSTED.fullmatch(value) is not None
