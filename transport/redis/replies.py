"""Answers on their way through a gateway's stream: cut into chunks, and put together again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from transport.messages import Lane
from transport.redis.keys import LANES

CHUNK_BYTES = 65_536  # larger strings are slow to allocate on both sides, and delay small answers


class Queued(NamedTuple):
    """What was in the queues of a model at a moment of Redis' clock."""

    time_us: int
    tokens: Mapping[Lane, int]
    jobs: Mapping[Lane, int]


class Reply(NamedTuple):
    job_id: str
    frame: bytes
    queued: Queued


def parse_queued(text: bytes) -> Queued:
    """Of `backlog` in lua/jobs.lua."""
    time_us, *counts = (int(part) for part in text.split())
    return Queued(
        time_us,
        dict(zip(LANES, counts[:2], strict=True)),
        dict(zip(LANES, counts[2:], strict=True)),
    )


def cut(frame: bytes) -> list[memoryview]:
    """Chunks of an encoded outcome."""
    whole = memoryview(frame)
    return [whole[at : at + CHUNK_BYTES] for at in range(0, len(frame), CHUNK_BYTES)]


@dataclass
class Assembly:
    """Answers of which the first chunks have come. One script sends all of an answer at once."""

    _parts: dict[str, list[bytes]] = field(default_factory=dict)

    def add(self, fields: list[bytes]) -> Iterator[Reply]:
        """The reply that this entry completes, if it does.

        Fields of a newer worker are left out. Raises KeyError or ValueError: it is no answer.
        """
        named = dict(zip(fields[::2], fields[1::2], strict=True))
        index, count, queued, chunk = (named[name] for name in (b"i", b"n", b"b", b"d"))
        job_id = named[b"j"].decode()
        if count == b"1":
            yield Reply(job_id, chunk, parse_queued(queued))
            return
        parts = self._parts.setdefault(job_id, [])
        if int(index) == 0:
            parts.clear()
        parts.append(chunk)
        if len(parts) == int(count):
            del self._parts[job_id]
            yield Reply(job_id, b"".join(parts), parse_queued(queued))

    def clear(self) -> None:
        self._parts.clear()
