"""Health, metrics, logs and request ids."""

import io
import json
import logging
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from observability.admin import AdminApp
from observability.health import Health
from observability.logs import configure_logs, flush_logs, get_logger
from observability.metrics import Metrics
from observability.request_id import is_loggable, new_id


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def admin(health: Health) -> httpx.AsyncClient:
    metrics = Metrics()
    metrics.prime("m")
    metrics.prime_requests("m", "embed", (), ())
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
    assert 'florilege_tokens_total{kind="embed",model="m"} 0.0' in text
    assert (
        'florilege_stage_duration_seconds_bucket{le="0.0001",model="m",stage="infer"} 0.0' in text
    )


def test_worker_tells_nothing_of_what_only_gateways_know() -> None:
    metrics = Metrics()
    metrics.prime("m")
    told = {
        sample.name
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.labels.get("model") == "m"
    }
    of_gateways = ("live_workers", "capacity_tokens_per_second", "queue_", "estimated_wait", "shed")
    assert not [
        name for name in told if name.startswith(tuple(f"florilege_{n}" for n in of_gateways))
    ]
    assert "florilege_jobs_total" in told


async def test_openmetrics_is_served_to_who_asks_for_it(admin: httpx.AsyncClient) -> None:
    response = await admin.get("/metrics", headers={"accept": "application/openmetrics-text"})
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")
    assert "_created" not in response.text + (await admin.get("/metrics")).text


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
    assert (second["event"], second["level"]) == ("from %s", "warning")
    assert second["logger"] == "library"
    assert first["timestamp"]


def test_engine_tells_its_reasons() -> None:
    output = io.StringIO()
    configure_logs("info", output)
    logging.getLogger("engine.runtime").warning("other kernels: %s", "no AVX-512\nhere")
    assert json.loads(output.getvalue())["event"] == "other kernels: no AVX-512"


def test_library_quotes_no_client_in_the_log() -> None:
    output = io.StringIO()
    configure_logs("info", output)
    try:
        raise KeyError("SECRET")
    except KeyError as error:
        logging.getLogger("library").exception("failed for %s\nSECRET", "SECRET")
        logging.getLogger("library").error(error)
    logging.getLogger("library").warning("%d", "SECRET")  # which cannot even be formatted
    failed, bare, template = (json.loads(line) for line in output.getvalue().splitlines())
    assert "SECRET" not in output.getvalue()
    assert (failed["event"], failed["error"]) == ("failed for %s", "KeyError")
    assert failed["file"] == __file__
    assert (bare["event"], template["event"]) == ("KeyError", "%d")


def test_lines_of_a_process_are_written_soon(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w") as output:
        configure_logs("info", output)
        for number in range(2):
            get_logger().info("event", text="ä", number=number)
            flush_logs(within_s=5)
            line = json.loads(path.read_text().splitlines()[-1])
            assert (line["text"], line["number"]) == ("ä", number)
        logging.getLogger("library").warning("too")
        flush_logs(within_s=5)
        assert json.loads(path.read_text().splitlines()[-1])["event"] == "too"
        assert line["timestamp"].endswith("Z")


def test_process_without_stdout_logs_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    configure_logs()
    get_logger().info("event")
    flush_logs()


def test_value_that_json_does_not_know_is_still_logged() -> None:
    output = io.StringIO()
    configure_logs("info", output)
    get_logger().info("event", value=frozenset({1}), error=ValueError("x"))
    get_logger().info("event", half="\ud800", number=2**70)
    for line in output.getvalue().splitlines():
        assert json.loads(line)["event"] == "event"
    assert output.getvalue().count("\n") == 2


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
