"""The two sides of a transport; one contract suite holds every transport to both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from checkpoint.spec import ModelSpec
from transport.messages import Job, JobResult, Lane, Outcome


class ServedModel(NamedTuple):
    spec: ModelSpec
    live_workers: int


class Backlog(NamedTuple):
    """What admission needs to know of one model's queue."""

    tokens: int  # waiting or running
    tokens_per_s: float | None  # of all live workers; None until a batch at least half full has run
    jobs: int = 0  # waiting or running


@dataclass(frozen=True)
class Announcement:
    """What a worker says of a model with every heartbeat."""

    spec: ModelSpec
    tokenizer_json: bytes
    tokens_per_s: float | None = None


@dataclass(frozen=True, eq=False)
class Delivery:
    """A job as a worker received it."""

    job: Job
    deadline_s: float  # on the event loop's clock: after it nobody waits for the answer
    waited_s: float  # from submission to receipt
    attempt: int = 1  # counts deliveries of the same job


class JobClient(Protocol):
    """The gateway's side."""

    async def submit(self, job: Job) -> JobResult:
        """Run a job to its end. Cancelling the awaiting task cancels the job.

        Raises:
            JobError: with the code that says why; `deadline` once `budget_ms` has passed.
        """
        ...

    async def models(self) -> Mapping[str, ServedModel]:
        """Every announced model by its id, with the workers that jobs may be submitted for.

        What was returned never changes: after an announcement it is another mapping.
        """
        ...

    def live_workers(self, model: str) -> int:
        """Of a model, at this moment, as far as is sure."""
        ...

    async def tokenizer(self, sha256: str) -> bytes:
        """The tokenizer.json of that digest.

        Raises KeyError when no worker announced it, JobError where nobody can tell.
        """
        ...

    async def backlog(self, model: str, lane: Lane) -> Backlog:
        """Tokens ahead of a new job in that lane: online counts its own, bulk both."""
        ...

    async def oldest_s(self, model: str) -> Mapping[Lane, float]:
        """Age of the oldest job of each lane, waiting or running; 0 where there is none.

        Raises JobError where nobody can tell.
        """
        ...


class JobConsumer(Protocol):
    """The worker's side."""

    async def announce(self, announcement: Announcement) -> None:
        """Say that this worker serves the model. Repeated as a heartbeat."""
        ...

    async def receive(self, model: str, max_tokens: int, wait_s: float) -> list[Delivery]:
        """Whole jobs, up to `max_tokens` in all, but always at least one.

        Online before bulk, but a bulk job has its turn when none had for too long; in arrival order
        within a lane.
        May hold jobs that are no longer wanted, which take nobody's tokens: see `renew`.
        Waits up to `wait_s` for the first, then returns an empty list.
        """
        ...

    async def complete(self, delivery: Delivery, outcome: Outcome) -> None:
        """Answer a job. The first answer counts, later ones are dropped."""
        ...

    async def renew(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Keep these deliveries ours for another lease. Returns those still wanted, in order."""
        ...

    async def begin(self, delivery: Delivery) -> bool:
        """Count a further attempt, when it begins to run; the first counts as it is received.

        So a job that merely waited beside one that ended the process is not taken for another.
        False: nobody wants it any more.
        """
        ...

    async def hand_back(self, deliveries: Sequence[Delivery]) -> None:
        """Give up jobs that were not begun: others receive them at once, as if we never had."""
        ...

    async def release(self, model: str) -> None:
        """Hand back what is this worker's though it never received it: it receives no more."""
        ...
