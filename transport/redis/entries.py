"""A job as an entry of a queue.

Its fields stand in this order, since the scripts read them by place: `t` tokens, `b` budget in ms
from the time in the entry's id, `j` job id, `g` gateway, `m` the encoded Job.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from transport.messages import Job, Lane
from transport.protocols import Delivery
from transport.redis.keys import LANES, dedup_key, model_keys, reply_key
from transport.redis.line import Argument


class Entry(NamedTuple):
    """Where a job is, and what the scripts need to know of it."""

    id: str
    model: str
    lane: Lane
    tokens: int
    job_id: str
    gateway: str

    @property
    def queue(self) -> str:
        return model_keys(self.model).queues[LANES.index(self.lane)]

    @property
    def submitted_ms(self) -> int:
        """By Redis' clock."""
        return int(self.id.split("-")[0])


@dataclass(frozen=True, eq=False)
class StreamDelivery(Delivery):
    """A delivery, and its entry."""

    entry: Entry = field(kw_only=True)


class Given(NamedTuple):
    """An entry as Redis gave it to us."""

    lane: Lane
    raw: tuple[bytes, list[bytes]]  # its id; names and values, one after the other
    attempt: int = 1  # which delivery of the job this is


class QueuedJob(NamedTuple):
    """A job that is ours, not yet decoded."""

    entry: Entry
    budget_ms: int
    frame: bytes

    @property
    def deadline_ms(self) -> int:
        """By Redis' clock."""
        return self.entry.submitted_ms + self.budget_ms


def encode_fields(job: Job, frame: bytes, gateway: str, budget_ms: int) -> tuple[Argument, ...]:
    return ("t", job.tokens, "b", budget_ms, "j", job.job_id, "g", gateway, "m", frame)


def parse_entry(model: str, given: Given) -> QueuedJob:
    """Raises ValueError where it is none of ours."""
    entry_id, (_, tokens, _, budget, _, job_id, _, gateway, _, frame) = given.raw
    names = (entry_id.decode(), model, given.lane)
    entry = Entry(*names, int(tokens), job_id.decode(), gateway.decode())
    return QueuedJob(entry, int(budget), frame)


def job_keys(model: str, job_id: str) -> tuple[str, ...]:
    """What every script of jobs begins its KEYS with."""
    keys = model_keys(model)
    return (*keys.queues, *keys.tokens, dedup_key(job_id))


def lane_number(lane: Lane) -> int:
    """As the scripts count."""
    return LANES.index(lane) + 1


def answer_keys(entry: Entry) -> tuple[str, ...]:
    """KEYS of the scripts that answer."""
    return (*job_keys(entry.model, entry.job_id), reply_key(entry.gateway))
