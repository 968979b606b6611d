"""Health, metrics, logs and request ids."""

import io
import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from observability.admin import AdminApp
from observability.health import Health
from observability.logs import configure_logs, get_logger
from observability.metrics import Metrics
from observability.request_id import is_loggable, new_id


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def admin(health: Health) -> httpx.AsyncClient:
    metrics = Metrics()
    metrics.prime("m")
    transport = httpx.ASGITransport(AdminApp(health, metrics))  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://admin")


async def test_readiness_is_the_conjunction_of_all_checks(
    admin: httpx.AsyncClient, health: Health
) -> None:
    assert (await admin.get("/health/ready")).status_code == 200
    health.add("fine", lambda: None)
    health.add("models", lambda: "loading")
    response = await admin.get("/health/ready")
    assert response.status_code == 503
    assert response.json()["reasons"] == {"models": "loading"}
    assert (await admin.get("/health/live")).status_code == 200


async def test_series_of_a_model_exist_before_anything_happens(admin: httpx.AsyncClient) -> None:
    text = (await admin.get("/metrics")).text
    assert 'florilege_shed_total{model="m",reason="queue"} 0.0' in text
    assert 'florilege_queue_tokens{lane="bulk",model="m"} 0.0' in text
    assert (
        'florilege_stage_duration_seconds_bucket{le="0.0001",model="m",stage="infer"} 0.0' in text
    )


async def test_openmetrics_is_served_to_who_asks_for_it(admin: httpx.AsyncClient) -> None:
    response = await admin.get("/metrics", headers={"accept": "application/openmetrics-text"})
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("GET", "/v1/models", 404), ("POST", "/metrics", 405)],
)
async def test_admin_serves_nothing_else(
    admin: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    assert (await admin.request(method, path)).status_code == status


def test_every_metric_is_described_as_it_is_served() -> None:
    metrics = Metrics()
    served = {
        f"{family.name}_total" if family.type == "counter" else family.name: family.type
        for family in metrics.registry.collect()
        if family.name.startswith("florilege_")
    }
    assert {metric.name: metric.kind for metric in metrics.described} == served


def test_latencies_are_told_from_a_tenth_of_a_millisecond() -> None:
    metrics = Metrics()
    metrics.prime("m")
    text = {
        s.name: s.labels["le"]
        for f in metrics.registry.collect()
        for s in reversed(f.samples)
        if "le" in s.labels
    }
    for name in ("stage_duration", "batch_duration", "loop_lag"):
        assert text[f"florilege_{name}_seconds_bucket"] == "0.0001"


def test_series_is_found_again_by_its_labels_in_their_order_or_by_name() -> None:
    metrics = Metrics()
    by_name = {"model": "m", "reason": "queue"}
    assert metrics.shed.labels("m", "queue") is metrics.shed.labels("m", "queue")
    assert metrics.shed.labels(**by_name) is metrics.shed.labels("m", "queue")
    assert metrics.shed.labels(**by_name | {"reason": "full"}) is metrics.shed.labels("m", "full")
    assert metrics.shed.labels("m", "queue") is not metrics.shed.labels("m", "full")
    with pytest.raises(ValueError, match="label count"):
        metrics.shed.labels("m")


def test_every_metric_carries_the_prefix_and_a_text() -> None:
    for family in Metrics().registry.collect():
        assert family.name.startswith(("florilege_", "process_"))
        assert family.documentation


def test_logs_are_one_json_object_a_line_from_both_libraries() -> None:
    output = io.StringIO()
    configure_logs("info", output)
    get_logger().info("event", number=1)
    get_logger().debug("hidden")
    logging.getLogger("library").warning("from %s", "elsewhere")
    first, second = (json.loads(line) for line in output.getvalue().splitlines())
    assert (first["event"], first["number"], first["level"]) == ("event", 1, "info")
    assert (second["event"], second["level"]) == ("from elsewhere", "warning")
    assert first["timestamp"]


def test_exception_of_a_library_keeps_its_traceback_in_one_line() -> None:
    output = io.StringIO()
    configure_logs("info", output)
    try:
        raise KeyError("found")
    except KeyError:
        logging.getLogger("library").exception("failed")
        get_logger().error("own", exc_info=True)
    for line in output.getvalue().splitlines():
        assert "KeyError: 'found'" in json.loads(line)["exception"]
    assert output.getvalue().count("\n") == 2


def test_lines_of_a_process_are_written_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w") as output:
        configure_logs("info", output)
        for number in range(2):
            get_logger().info("event", text="ä", number=number)
            line = json.loads(path.read_text().splitlines()[-1])
            assert (line["text"], line["number"]) == ("ä", number)
        assert line["timestamp"].endswith("Z")


def test_value_that_json_does_not_know_is_still_logged() -> None:
    output = io.StringIO()
    configure_logs("info", output)
    get_logger().info("event", value=frozenset({1}), error=ValueError("x"))
    assert json.loads(output.getvalue())["event"] == "event"


def test_ids_are_unique_sortable_and_of_version_seven() -> None:
    ids = [new_id("req_") for _ in range(1000)]
    assert len(set(ids)) == 1000
    for value in ids:
        digits = value.removeprefix("req_")
        assert len(digits) == 32
        assert digits[12] == "7"
        assert digits[16] in "89ab"
    assert [i[:16] for i in ids] == sorted(i[:16] for i in ids)


@pytest.mark.parametrize("value", ["", "a b", "a\nb", "é", "x" * 65, "a;b"])
def test_ids_that_could_forge_a_header_or_a_log_line_are_not_echoed(value: str) -> None:
    assert not is_loggable(value)
    assert is_loggable("A-z_0.9")


@pytest.fixture(autouse=True)
def _restore_logs() -> Any:
    yield
    structlog.reset_defaults()
