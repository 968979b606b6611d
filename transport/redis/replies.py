"""Answers on their way through a gateway's stream: cut into chunks, and put together again."""

from collections.abc import Mapping
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
    """The answer of which the first chunks have come: one script sends all of an answer at once.

    So whatever comes between two chunks, unless it is the next, means that the rest never will.
    """

    _job_id: str = ""  # whose answer it is
    _count: int = 0  # of its parts
    _parts: list[bytes] = field(default_factory=list)
    _broken: list[str] = field(default_factory=list)
    _told: str = ""  # the job that was broken last, whose other parts may still come
    _is_within: bool = True  # a chunk alone has lost its beginning

    def add(self, fields: list[bytes]) -> Reply | None:
        """The reply that this entry completes, if it does.

        Fields of a newer worker are left out. Raises KeyError or ValueError: it is no answer.
        """
        named: dict[bytes, bytes] = {}
        try:
            named = dict(zip(fields[::2], fields[1::2], strict=True))
            return self._add(named)
        except (KeyError, ValueError):
            self._break(named.get(b"j", b"").decode(errors="replace"))
            raise

    def take_broken(self) -> list[str]:
        """Jobs whose answers will never be whole, since this was last asked."""
        broken, self._broken = self._broken, []
        return broken

    def clear(self) -> None:
        """The stream is read from its beginning, which may lie within an answer."""
        self._job_id, self._is_within = "", False
        self._parts.clear()

    def _add(self, named: Mapping[bytes, bytes]) -> Reply | None:
        index, count = int(named[b"i"]), int(named[b"n"])
        job_id, queued, chunk = named[b"j"].decode(), parse_queued(named[b"b"]), named[b"d"]
        if not 0 <= index < count:
            raise ValueError("a part beyond the last")
        if index == 0:
            self._break()
            self._job_id, self._count, self._told, self._is_within = job_id, count, "", True
        elif (job_id, index, count) != (self._job_id, len(self._parts), self._count):
            if self._is_within:
                self._break(job_id)
            return None
        self._parts.append(chunk)
        if len(self._parts) < count:
            return None
        frame = chunk if count == 1 else b"".join(self._parts)
        self._job_id = ""
        self._parts.clear()
        return Reply(job_id, frame, queued)

    def _break(self, job_id: str = "") -> None:
        """Neither the answer that has begun nor that of this job will be whole."""
        for lost in dict.fromkeys(filter(None, (self._job_id, job_id))):
            if lost != self._told:
                self._broken.append(lost)
                self._told = lost
        self._job_id, self._is_within = "", True
        self._parts.clear()
