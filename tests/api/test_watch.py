"""What a gateway tells of its models."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from fake_client import FakeClient
from fake_service import EMBED, SCORE
from structlog.testing import capture_logs

from api.catalog import Catalog
from api.watch import ModelWatch, ReadyWhen
from observability.metrics import Metrics

WaitUntil = Callable[..., Awaitable[None]]


class Watched:
    def __init__(self) -> None:
        self.client = FakeClient(EMBED, SCORE)
        self.metrics = Metrics()
        self.watch = ModelWatch(Catalog(self.client), self.client, self.metrics)

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"florilege_{name}", labels)


async def test_gauges_tell_workers_and_queues_of_each_model() -> None:
    watched = Watched()
    watched.client.set_live(SCORE.id, 0)
    await watched.watch.refresh()
    assert watched.value("live_workers", model=EMBED.id) == 1
    assert watched.value("live_workers", model=SCORE.id) == 0
    assert watched.value("queue_tokens", model=EMBED.id, lane="online") == 3
    assert watched.value("queue_tokens", model=EMBED.id, lane="bulk") == 5
    assert watched.value("queue_depth", model=EMBED.id, lane="bulk") == 1


async def test_forgotten_model_has_no_gauges_until_it_is_known_again() -> None:
    watched = Watched()
    await watched.watch.refresh()
    forgotten = watched.client.served.pop(EMBED.id)
    for _ in range(2):
        await watched.watch.refresh()
        assert watched.value("live_workers", model=EMBED.id) is None  # 0 is an alert
        for lane in ("online", "bulk"):
            assert watched.value("queue_tokens", model=EMBED.id, lane=lane) is None
            assert watched.value("queue_depth", model=EMBED.id, lane=lane) is None
            assert watched.value("queue_oldest_age_seconds", model=EMBED.id, lane=lane) is None
            assert watched.value("estimated_wait_seconds", model=EMBED.id, lane=lane) is None
        assert watched.value("live_workers", model=SCORE.id) == 1
    watched.client.served[EMBED.id] = forgotten
    await watched.watch.refresh()
    assert watched.value("live_workers", model=EMBED.id) == 1
    assert watched.value("queue_tokens", model=EMBED.id, lane="online") == 3


async def test_gauge_tells_only_of_workers_that_surely_live() -> None:
    """As readiness does: in doubt jobs wait, which no alert should take for a live worker."""
    watched = Watched()
    watched.client.doubts = True
    await watched.watch.refresh()
    assert watched.value("live_workers", model=EMBED.id) == 0
    assert watched.watch.lacking("any") == "no model has a live worker"


async def test_gauges_tell_how_long_a_job_waits_and_would_wait() -> None:
    watched = Watched()
    await watched.watch.refresh()
    assert watched.value("estimated_wait_seconds", model=EMBED.id, lane="bulk") == 0
    assert watched.value("capacity_tokens_per_second", model=EMBED.id) == 0
    assert watched.value("queue_oldest_age_seconds", model=EMBED.id, lane="online") == 1.5
    watched.client.tokens_per_s = 2.0
    await watched.watch.refresh()
    assert watched.value("capacity_tokens_per_second", model=EMBED.id) == 2
    assert watched.value("estimated_wait_seconds", model=EMBED.id, lane="online") == 1.5
    assert watched.value("estimated_wait_seconds", model=EMBED.id, lane="bulk") == 4


async def test_first_failure_of_each_kind_is_seen_as_one() -> None:
    watched = Watched()
    await watched.watch.refresh()
    labels = {"model": EMBED.id, "code": "503", "error_type": "service_unavailable_error"}
    assert watched.value("requests_total", route="/v1/embeddings", **labels) == 0
    labels["model"] = SCORE.id
    assert watched.value("requests_total", route="/v1/rerank", **labels) == 0
    assert watched.value("requests_total", route="/v1/embeddings", **labels) is None


async def test_no_request_waits_for_a_tokenizer() -> None:
    watched = Watched()
    await watched.watch.refresh()
    assert watched.client.asked_tokenizers == 1  # of both: it is the same


async def test_model_without_its_tokenizer_does_not_hide_the_others() -> None:
    watched = Watched()
    watched.client.tokenizers.clear()
    await watched.watch.refresh()
    assert watched.value("live_workers", model=SCORE.id) == 1


@pytest.mark.parametrize(
    ("ready_when", "lacking"),
    [("redis", [False] * 3), ("any", [True, False, False]), ("every", [True, True, False])],
)
async def test_readiness_asks_for_as_many_workers_as_it_is_told(
    ready_when: ReadyWhen, lacking: list[bool]
) -> None:
    watched = Watched()
    found = []
    for live in ((0, 0), (1, 0), (1, 2)):
        for model, workers in zip((EMBED.id, SCORE.id), live, strict=True):
            watched.client.set_live(model, workers)
        await watched.watch.refresh()
        found.append(watched.watch.lacking(ready_when) is not None)
    assert found == lacking


async def test_readiness_goes_with_the_last_worker_and_not_with_the_next_look() -> None:
    watched = Watched()
    await watched.watch.refresh()
    assert watched.watch.lacking("any") is None
    for model in (EMBED.id, SCORE.id):
        watched.client.set_live(model, 0)
    assert watched.watch.lacking("any") == "no model has a live worker"


async def test_live_workers_that_differ_are_told_once_and_counted_each_time() -> None:
    watched = Watched()
    await watched.watch.refresh()
    with capture_logs() as logs:
        for dtype, revision in (("bfloat16", "r2"), (EMBED.dtype, EMBED.revision)) * 3:
            watched.client.announce_anew(EMBED.id, dtype=dtype, revision=revision)
            for _ in range(2):
                await watched.watch.refresh()
    assert [line for line in logs if line["event"] == "model_changed"] == [
        {
            "event": "model_changed",
            "log_level": "warning",
            "model": EMBED.id,
            "fields": ["dtype", "revision"],
        }
    ]
    assert watched.value("model_changes_total", model=EMBED.id) == 6
    assert watched.value("model_changes_total", model=SCORE.id) == 0


async def test_each_further_difference_is_told_by_its_own_fields() -> None:
    watched = Watched()
    await watched.watch.refresh()
    watched.client.tokenizers["ff" * 32] = watched.client.tokenizers[EMBED.tokenizer_sha256]
    with capture_logs() as logs:
        for changes in ({"max_tokens": 7}, {"tokenizer_sha256": "ff" * 32}):
            watched.client.announce_anew(EMBED.id, **changes)
            await watched.watch.refresh()
    told = [line["fields"] for line in logs if line["event"] == "model_changed"]
    assert told == [["max_tokens"], ["tokenizer_sha256"]]


async def test_what_leaves_vectors_alone_and_workers_that_follow_others_are_no_change() -> None:
    watched = Watched()
    await watched.watch.refresh()
    watched.client.announce_anew(EMBED.id, runtime={"device": "cuda:1"}, aliases=("other",))
    await watched.watch.refresh()
    watched.client.set_live(EMBED.id, 0)
    await watched.watch.refresh()
    watched.client.announce_anew(EMBED.id, revision="r2")
    watched.client.set_live(EMBED.id, 1)
    await watched.watch.refresh()
    assert watched.value("model_changes_total", model=EMBED.id) == 0


async def test_watch_outlives_a_transport_that_fails(wait_until: WaitUntil) -> None:
    watched = Watched()
    watched.client.error = ConnectionError("gone")
    running = asyncio.create_task(watched.watch.run(period_s=0.001))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not running.done()
    watched.client.error = None
    await wait_until(lambda: watched.watch.live_workers)
    running.cancel()
