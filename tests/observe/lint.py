"""What every dashboard keeps to. A finding is a line that says where and what."""

import re
from collections.abc import Iterator
from typing import Any

from observe.dashboards import Panel, substituted
from observe.promql import Use, uses

MOST_PANELS = 25
UNITS = re.compile(r"s|bytes|short|none|percentunit|reqps|ops|watt|si:\w+(/s)?")
COUNTS = ("_total", "_bucket", "_sum", "_count")
# Every gateway tells the same of them: summed over gateways they would be too large.
SHARED = ("live_workers", "queue_depth", "queue_tokens", "queue_oldest_age_seconds")
SHARED += ("estimated_wait_seconds", "capacity_tokens_per_second", "model_changes_total")
RATE_S, RANGE_S = 15, 60


def of_dashboard(name: str, dashboard: dict[str, Any]) -> Iterator[str]:
    if dashboard["uid"] != f"florilege-{name}":
        yield f"{name}: the uid is not that of the file"
    variables = [variable["name"] for variable in dashboard["templating"]["list"]]
    if variables != ["datasource", "model", "instance"]:
        yield f"{name}: variables {variables}"
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    if len(panels) > MOST_PANELS:
        yield f"{name}: {len(panels)} panels"
    titles = [panel["title"] for panel in panels]
    yield from (f"{name}: two panels {title}" for title in titles if titles.count(title) > 1)
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        if cells & taken or at["x"] + at["w"] > 24:
            yield f"{name} / {panel['title']}: lies over another, or beyond the edge"
        taken |= cells


def of_panel(panel: Panel) -> Iterator[str]:
    defaults = panel.json["fieldConfig"]["defaults"]
    if not UNITS.fullmatch(defaults.get("unit", "")):
        yield f"{panel.name}: unit {defaults.get('unit')}"
    for field, text in (
        ("description", panel.json.get("description")),
        ("no-data text", defaults.get("noValue")),
    ):
        if not text:
            yield f"{panel.name}: no {field}"
    for target in panel.json["targets"]:
        if panel.json["datasource"]["uid"] != "${datasource}" != target["datasource"]["uid"]:
            yield f"{panel.name}: a data source of its own"
        if not target["legendFormat"]:
            yield f"{panel.name}: a series without a name"
        if re.search(r"\[\d", target["expr"]):
            yield f"{panel.name}: a range of its own; use $__rate_interval or $__range"
        for use in uses(substituted(target["expr"], RATE_S, RANGE_S)):
            yield from (f"{panel.name}: {fault}" for fault in _of_use(use, target["expr"]))


def _of_use(use: Use, expr: str) -> Iterator[str]:
    if use.metric.endswith(COUNTS) and not {"rate", "increase"} & set(use.calls):
        yield f"{use.metric} counts up: ask for its rate"
    gathered = [call for call in use.calls if call not in ("rate", "increase")]
    if use.metric.removeprefix("florilege_") in SHARED and gathered[:1] != ["max"]:
        yield f"{use.metric} is told by every gateway: take the max"
    if "histogram_quantile" in use.calls and "le" not in use.labels:
        yield f"{use.metric}: a quantile needs le"
    if "model" in use.labels and "$model" not in expr and "florilege:" not in expr:
        yield f"{use.metric}: not filtered by $model"
