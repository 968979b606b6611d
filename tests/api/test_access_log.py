"""What is told of a request: its line, its counters; and less of each in a flood."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pytest
from fake_service import EMBED, FakeService, running_service, with_limits, word
from hand_clock import HandClock
from structlog.testing import capture_logs

from api.access_log import AccessLog
from api.context import RequestContext
from observability.line_sampling import LineSampler
from observability.logs import configure_logs, count_dropped_lines, flush_logs
from observability.metrics import Metrics

SCOPE: dict[str, Any] = {"method": "POST", "headers": []}


class Route(NamedTuple):
    path: str


def test_flood_of_refused_requests_writes_ten_lines_a_second_and_counts_the_rest() -> None:
    clock, metrics = HandClock(), Metrics()
    log = AccessLog(metrics, LineSampler(now=clock))
    with capture_logs() as lines:
        for _ in range(25):
            log.record(SCOPE, RequestContext("req_1"), 503)
        log.record(SCOPE, RequestContext("req_2"), 200)
        clock.now += 1
        for status in (429, 200):
            log.record(SCOPE, RequestContext("req_3"), status)
    assert [line["status"] for line in lines] == [503] * 10 + [200, 429, 200]
    assert [line.get("unlogged") for line in lines] == [None] * 10 + [15, None, None]
    unlogged = metrics.registry.get_sample_value("florilege_unlogged_requests_total")
    assert unlogged == 15
    assert (
        metrics.registry.get_sample_value(
            "florilege_requests_total",
            {"route": "other", "model": "none", "code": "503", "error_type": ""},
        )
        == 25
    )


def test_what_is_answered_or_fails_is_always_written() -> None:
    with capture_logs() as lines:
        log = AccessLog(Metrics(), LineSampler(most_per_s=0))
        for status in (200, 400, 499, 500, 504):
            log.record(SCOPE, RequestContext("req_1"), status)
    assert [line["status"] for line in lines] == [200, 400, 499, 500, 504]


@pytest.mark.parametrize(
    ("header", "retry"),
    [
        *(("0", None), ("1", "1"), ("2", "2"), ("3", "more"), ("40", "more")),
        *(("", None), ("-1", None), ("two", None), ("²", None), ("9" * 5_000, None)),
    ],
)
async def test_retries_that_an_sdk_tells_of_are_counted_under_three_labels(
    service: FakeService, header: str, retry: str | None
) -> None:
    body = {"model": EMBED.id, "input": word(1)}
    headers = [(b"x-stainless-retry-count", header.encode())]
    await service.client.post("/v1/embeddings", json=body, headers=headers)
    counted = {
        sample.labels["retry"]
        for family in service.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "florilege_client_retries_total" and sample.value
    }
    assert counted == ({retry} if retry else set())


async def test_latency_is_told_by_the_size_of_what_was_answered() -> None:
    async with running_service(config=with_limits(max_request_tokens=2_000)) as service:
        await service.embed(input=word(1))
        await service.embed(input=[word(1)] * 400)  # 1,200 tokens
        await service.embed(input=[word(1)] * 700)  # too many
        for size in ("small", "large", "none"):
            name = "request_duration_seconds_count"
            labels = {"route": "/v1/embeddings", "model": EMBED.id, "size": size}
            assert service.value(name, **labels) == 1


async def test_latency_is_that_of_neither_probes_nor_administration(service: FakeService) -> None:
    await service.client.get("/health/live")
    AccessLog(service.metrics).record(
        SCOPE | {"route": Route("/v1/admin/keys")}, RequestContext("req_1"), 200
    )
    timed = {
        sample.labels["route"]
        for family in service.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "florilege_request_duration_seconds_count" and sample.value
    }
    assert not timed
    assert (
        service.value(
            "requests_total", route="/health/live", model="none", code="200", error_type=""
        )
        == 1
    )


@pytest.fixture
def full_disk() -> Iterator[TextIO]:
    with Path("/dev/full").open("w") as full:
        yield full


async def test_request_is_answered_while_the_log_has_no_room(
    service: FakeService, full_disk: TextIO
) -> None:
    dropped = list[float]()
    configure_logs(stream=full_disk)
    count_dropped_lines(dropped.append)
    for _ in range(3):
        assert (await service.embed(input=word(1))).status_code == 200
    flush_logs(within_s=5)
    assert sum(dropped) == 3
