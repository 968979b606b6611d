"""Everything started, driven and scraped: what dashboards and rules then say."""

from collections import Counter
from collections.abc import Iterator

import pytest
from observe.dashboards import panels
from observe.outcome import ask
from observe.scene import BURNING, RPM, Scene, played_scene

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with played_scene() as scene:
        yield scene


def test_every_query_of_every_panel_is_answered_with_data(scene: Scene) -> None:
    bad = [outcome.line() for panel in panels() if not (outcome := ask(scene, panel)).holds]
    assert not bad, "\n".join(bad)


def test_panels_that_may_be_empty_are_of_what_is_not_there(scene: Scene) -> None:
    """A GPU and an exporter of Redis: a panel that has data here must not be excused."""
    excused = [panel for panel in panels() if panel.empty_ok]
    assert excused
    full = [panel.name for panel in excused if any(ask(scene, panel).samples)]
    assert not full


def test_requests_are_counted_as_their_callers_saw_them(scene: Scene) -> None:
    samples = scene.prometheus.get("query", query="sum by (code) (florilege_requests_total) > 0")[
        "result"
    ]
    counted = Counter({s["metric"]["code"]: int(float(s["value"][1])) for s in samples})
    assert counted == scene.told
    assert counted.keys() >= {"200", "400", "401", "404", "429", "499", "500", "503", "504"}


@pytest.mark.parametrize(
    ("expr", "least"),
    [
        ('florilege_ratelimited_total{limit="rpm"}', RPM),
        ('florilege_shed_total{reason="queue"}', 1),
        ("florilege_redelivered_total", 1),
        ("florilege_truncated_inputs_total", 1),
        ('florilege_client_retries_total{retry="2"}', 1),
        ('florilege_jobs_total{lane="bulk"}', 1),
        ("florilege_key_revision", 1),
        ('florilege_redis_op_duration_seconds_count{op="submit"}', 1),
    ],
)
def test_what_went_amiss_is_counted(scene: Scene, expr: str, least: float) -> None:
    value = scene.prometheus.value(expr)
    assert value is not None
    assert value >= least


def test_refusals_and_failures_burn_the_error_budget(scene: Scene) -> None:
    failed = sum(count for code, count in scene.told.items() if code.startswith("5"))
    counted = sum(count for code, count in scene.told.items() if not code.startswith("4"))
    ratio = scene.prometheus.value("florilege:requests:failed_ratio_rate1h")
    assert ratio == pytest.approx(failed / counted, rel=0.5)  # rate() extrapolates
    assert scene.prometheus.value(BURNING)


def test_every_rule_is_evaluated_without_an_error(scene: Scene) -> None:
    groups = scene.prometheus.get("rules")["groups"]
    ill = [rule for group in groups for rule in group["rules"] if rule["health"] != "ok"]
    assert groups
    assert not ill
