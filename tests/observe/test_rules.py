"""Recording and alerting rules: understood, tried by promtool, and each alert explained."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from observe.dashboards import panels
from observe.promql import uses
from observe.series import rules
from prometheus_server import ROOT, RULES

from api.access import OPEN_PATHS, SCOPES

CASES = sorted(Path(__file__).with_name("rules").glob("*.yaml"))
ALERTS = {rule["alert"]: rule for rule in rules() if "alert" in rule}
RECORDED = {rule["record"]: rule for rule in rules() if "record" in rule}


def cases() -> list[dict[str, Any]]:
    return [case for path in CASES for case in yaml.safe_load(path.read_text())["tests"]]


def promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def metrics_of(expr: str) -> set[str]:
    """With what recorded series are made of."""
    named = {use.metric for use in uses(expr)}
    return named.union(*(metrics_of(RECORDED[name]["expr"]) for name in named & RECORDED.keys()))


def test_rules_are_understood_by_prometheus() -> None:
    promtool("check", "rules", *map(str, sorted(RULES.glob("*.yaml"))))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should_and_are_quiet_when_they_should(path: Path) -> None:
    promtool("test", "rules", str(path))


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_rule_merges_nothing_of_two_releases(rule: dict[str, Any]) -> None:
    """`namespace` and `job` are all that tells them apart: no aggregation may drop them."""
    for use in uses(rule["expr"]):
        if {"sum", "max", "min", "group", "count", "avg"} & set(use.calls):
            assert use.labels >= {"namespace", "job"}, use.metric


@pytest.mark.parametrize("alert", ALERTS)
def test_alert_has_a_case_in_which_it_fires_and_a_quiet_one(alert: str) -> None:
    fires = quiet = 0
    for case in cases():
        if case["name"].split(" ")[0] != alert:
            continue
        told = {re.split(r"\{", series["series"])[0] for series in case["input_series"]}
        assert told & metrics_of(ALERTS[alert]["expr"]), case["name"]
        (asked,) = case["promql_expr_test"]
        assert f'alertname="{alert}"' in asked["expr"]
        fires += bool(asked["exp_samples"])
        quiet += not asked["exp_samples"]
    assert fires
    assert quiet


@pytest.mark.parametrize("alert", ALERTS)
def test_alert_says_how_urgent_it_is_and_where_its_runbook_stands(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["annotations"]["summary"]
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor == alert.lower()
    assert alert in headings


def test_objectives_are_of_the_routes_of_callers_and_of_no_other() -> None:
    exprs = [rule["expr"] for rule in rules()]
    exprs += [expr for panel in panels() for expr in panel.exprs]
    patterns = {found for expr in exprs for found in re.findall(r'route=~"([^"]*)"', expr)}
    (pattern,) = patterns  # one for all
    counted = {route for route in {*SCOPES, *OPEN_PATHS} if re.fullmatch(pattern, route)}
    callers = {route for route, scope in SCOPES.items() if scope != "admin"}
    assert counted == callers - {"/openapi.json"}


def test_no_runbook_is_left_of_an_alert_that_is_gone() -> None:
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE)
    explained = [heading for heading in headings if heading.startswith("Florilege")]
    assert sorted(explained) == sorted(ALERTS)
