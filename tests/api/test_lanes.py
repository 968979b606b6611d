"""Which lane the jobs of a request run in."""

import pytest
from fake_service import EMBED, running_service, with_limits

from auth.principal import ANONYMOUS, Principal
from auth.record import Lane
from transport.messages import Job, JobResult

BULK_TOKENS = 10
LARGE = " ".join(f"w{i}" for i in range(20))


@pytest.mark.parametrize(
    ("header", "of_key", "text", "lane"),
    [
        (None, None, "w1", "online"),
        (None, None, LARGE, "bulk"),
        (None, "bulk", "w1", "bulk"),
        (None, "online", LARGE, "online"),
        ("online", "bulk", LARGE, "online"),
        ("bulk", "online", "w1", "bulk"),
    ],
)
async def test_lane_is_the_headers_else_the_keys_else_by_size(
    header: str | None, of_key: Lane | None, text: str, lane: Lane
) -> None:
    lanes = []
    principal = Principal(None, "caller", ANONYMOUS.scopes, lane=of_key)
    async with running_service(config=with_limits(bulk_tokens=BULK_TOKENS)) as service:
        submit = service.transport.submit

        async def note_lane(job: Job) -> JobResult:
            lanes.append(job.lane)
            return await submit(job)

        service.transport.submit = note_lane  # type: ignore[method-assign]
        service.authenticator.authenticate = lambda _: principal  # type: ignore[method-assign]
        headers = {"x-florilege-lane": header} if header else {}
        body = {"model": EMBED.id, "input": text}
        answer = await service.client.post("/v1/embeddings", json=body, headers=headers)
    assert answer.status_code == 200
    assert lanes == [lane]
