"""The committed dashboards: what they are built of, what they keep to, what they ask for."""

import copy
from typing import Any

import pytest
from observe.dashboards import DIRECTORY, FILES, Panel, load, panels, substituted
from observe.lint import of_dashboard, of_panel
from observe.promql import uses
from observe.series import UNUSED, families, labels, rules

from deploy.grafana.builder.__main__ import files


def every_expr() -> list[tuple[str, str]]:
    """Where it stands, and what it is: of panels and rules."""
    shown = [(panel.name, substituted(expr, 15, 60)) for panel in panels() for expr in panel.exprs]
    return shown + [(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()]


def test_committed_dashboards_are_what_the_builder_writes() -> None:
    assert {path.name: path.read_text() for path in FILES} == files()
    assert {path.name for path in DIRECTORY.iterdir()} == set(files())


def test_dashboards_keep_to_the_rules_of_the_house() -> None:
    findings = [one for path in FILES for one in of_dashboard(path.stem, load(path))]
    findings += [one for panel in panels() for one in of_panel(panel)]
    assert not findings, "\n".join(findings)


def test_every_metric_and_label_that_is_asked_for_exists() -> None:
    known = labels()
    findings = []
    for place, expr in every_expr():
        for use in uses(expr):
            if use.metric not in known:
                findings.append(f"{place}: no metric {use.metric}")
            elif not use.labels <= known[use.metric]:
                findings.append(f"{place}: {use.metric} has no {use.labels - known[use.metric]}")
    assert not findings, "\n".join(findings)


def test_every_metric_of_ours_is_shown_or_left_out_on_purpose() -> None:
    asked = {use.metric for _, expr in every_expr() for use in uses(expr)}
    unseen = {name for name, series in families().items() if not asked & set(series)}
    assert unseen == set(UNUSED)


def broken(change: str) -> Panel:
    """A good panel with one thing amiss."""
    panel = copy.deepcopy(next(p for p in panels() if p.name == "queue / Tokens a batch"))
    target: dict[str, Any] = panel.json["targets"][0]
    match change:
        case "unit":
            panel.json["fieldConfig"]["defaults"]["unit"] = "tokens"
        case "description":
            panel.json["description"] = ""
        case "no-data text":
            del panel.json["fieldConfig"]["defaults"]["noValue"]
        case "range of its own":
            target["expr"] = target["expr"].replace("$__rate_interval", "5m")
        case "counts up":
            target["expr"] = 'florilege_batch_tokens_sum{model=~"$model"}'
        case "take the max":
            target["expr"] = 'sum by (model) (florilege_queue_tokens{model=~"$model"})'
        case "needs le":
            target["expr"] = target["expr"].replace("le, ", "")
        case "not filtered":
            target["expr"] = target["expr"].replace('model=~"$model", ', "")
    return panel


@pytest.mark.parametrize(
    "change",
    [
        *("unit", "description", "no-data text", "range of its own"),
        *("counts up", "take the max", "needs le", "not filtered"),
    ],
)
def test_lint_finds_what_is_amiss(change: str) -> None:
    findings = list(of_panel(broken(change)))
    assert any(change in finding for finding in findings), findings


def test_lint_finds_panels_that_lie_over_each_other() -> None:
    dashboard = load(FILES[0])
    assert not list(of_dashboard(FILES[0].stem, dashboard))
    dashboard["panels"][2]["gridPos"] = dashboard["panels"][1]["gridPos"]
    assert len(list(of_dashboard(FILES[0].stem, dashboard))) == 1
