"""Jobs that a gateway waits for. They outlive whatever Redis forgets."""

import asyncio
from dataclasses import dataclass

from transport.messages import Job, JobError


@dataclass(eq=False)
class Outstanding:
    """A job until it is answered. The first answer counts."""

    job: Job
    frame: bytes
    deadline_s: float  # on the event loop's clock
    answer: "asyncio.Future[bytes | JobError]"
    entry_id: str = ""  # '' until Redis said so
    memory: int | None = None  # which memory of Redis it was last given to
    sending: "asyncio.Task[None] | None" = None

    @property
    def is_open(self) -> bool:
        return not self.answer.done()

    @property
    def left_ms(self) -> int:
        """What the job still has, at least 1: Redis takes no 0 for a time to live."""
        left_s = self.deadline_s - asyncio.get_running_loop().time()
        return max(1, int(left_s * 1000))

    def resolve(self, answer: bytes | JobError) -> bool:
        """False: it had one."""
        if self.answer.done():
            return False
        self.answer.set_result(answer)
        return True
