"""Answers of a worker, on their way out. The first answer to a job counts."""

import asyncio
from dataclasses import dataclass
from hashlib import sha256

from redis.exceptions import ResponseError

from observability.logs import get_logger
from transport.messages import JobError, Outcome, encode_outcome
from transport.redis.backoff import Backoff
from transport.redis.entries import Entry, QueuedJob, answer_keys, lane_number
from transport.redis.errors import Unreachable
from transport.redis.events import OnEvent
from transport.redis.keys import GROUP, model_keys
from transport.redis.line import Argument, Line
from transport.redis.replies import cut
from transport.redis.scripts import DEAD_LETTER, FINISH, Script

DEDUP_LINGER_MS = 10_000  # a submit whose answer was lost is sent again within seconds
_DEAD_LETTERS = 1_000
_DEAD_LETTER_TTL_S = 7 * 86_400


@dataclass(frozen=True, eq=False)
class Answers:
    line: Line
    on_event: OnEvent
    patience_s: float = 10.0  # how long an answer is kept for a Redis that is away

    async def send(self, entry: Entry, outcome: Outcome) -> None:
        """Never raises: an answer that cannot leave is given again by whoever gets the job next."""
        chunks = cut(encode_outcome(entry.job_id, outcome))
        sent = await self._run(FINISH, answer_keys(entry), (*_head(entry), *chunks))
        if sent is False:
            self.on_event("late_finish", entry.model)

    async def give_up(self, job: QueuedJob, attempt: int) -> None:
        """Answer `poison`, and keep sizes and a hash of the job, never its text."""
        entry = job.entry
        get_logger().error("job_dead_lettered", model=entry.model, job=entry.job_id, tries=attempt)
        letter: tuple[Argument, ...] = (
            *("job", entry.job_id, "tokens", entry.tokens, "deliveries", attempt),
            *("lane", entry.lane, "sha256", sha256(job.frame).hexdigest()),
        )
        answer = encode_outcome(entry.job_id, JobError("poison"))
        keys = (*answer_keys(entry), model_keys(entry.model).dead_letters)
        arguments = (*_head(entry), answer, _DEAD_LETTERS, _DEAD_LETTER_TTL_S, *letter)
        if await self._run(DEAD_LETTER, keys, arguments):
            self.on_event("dead_lettered", entry.model)

    async def _run(
        self, script: Script, keys: tuple[str, ...], arguments: tuple[Argument, ...]
    ) -> bool | None:
        """Whether the answer was the first. None: it could not be sent."""
        loop, backoff = asyncio.get_running_loop(), Backoff()
        until_s = loop.time() + self.patience_s
        while True:
            try:
                return bool(await script.run(self.line, keys, *arguments))
            except Unreachable as error:
                if loop.time() > until_s:
                    get_logger().error("answer_not_sent", error=str(error))
                    return None
                await asyncio.sleep(backoff.next_s())
            except ResponseError as error:
                get_logger().error("answer_refused", error=str(error))
                return None


def _head(entry: Entry) -> tuple[Argument, ...]:
    """ARGV of the scripts that answer, up to the answer itself."""
    return (
        *(lane_number(entry.lane), GROUP, entry.id, entry.tokens),
        *(entry.job_id, DEDUP_LINGER_MS),
    )
