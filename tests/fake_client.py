"""A gateway's side of a transport that says what the test wants."""

from collections.abc import Mapping
from dataclasses import replace

from fake_service import TOKENIZER

from checkpoint.spec import ModelSpec
from transport.messages import Job, JobError, JobResult, Lane
from transport.protocols import Backlog, ServedModel


class FakeClient:
    """Knows the models it is given, each with one live worker; answers no job."""

    def __init__(self, *specs: ModelSpec) -> None:
        self.served = {spec.id: ServedModel(spec, 1) for spec in specs}
        self.tokenizers = {spec.tokenizer_sha256: TOKENIZER for spec in specs}
        self.error: Exception | None = None  # of whatever is asked
        self.asked_tokenizers = 0
        self.tokens_per_s: float | None = None
        self.doubts = False  # whether any worker lives, after an absence

    def set_live(self, model: str, workers: int) -> None:
        self.served[model] = self.served[model]._replace(live_workers=workers)

    def announce_anew(self, model: str, **changes: object) -> None:
        spec = replace(self.served[model].spec, **changes)  # type: ignore[arg-type]
        self.served[model] = self.served[model]._replace(spec=spec)

    async def submit(self, job: Job) -> JobResult:
        raise JobError("not_ready")

    async def models(self) -> Mapping[str, ServedModel]:
        if self.error is not None:
            raise self.error
        return self.served

    def live_workers(self, model: str) -> int:
        return self.served[model].live_workers if model in self.served and not self.doubts else 0

    async def tokenizer(self, sha256: str) -> bytes:
        self.asked_tokenizers += 1
        return self.tokenizers[sha256]

    async def backlog(self, model: str, lane: Lane) -> Backlog:
        tokens, jobs = (3, 1) if lane == "online" else (8, 2)
        return Backlog(tokens, self.tokens_per_s, jobs)

    async def oldest_s(self, model: str) -> Mapping[Lane, float]:
        if self.error is not None:
            raise self.error
        return {"online": 1.5, "bulk": 0.0}
