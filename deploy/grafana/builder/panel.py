"""One panel of a dashboard, and its JSON as Grafana reads it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from deploy.grafana.builder.expressions import BOTH, quantile

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
Kind = Literal["timeseries", "stat", "heatmap", "table"]

# Where a colour changes, by value; the first one has no bound.
Steps = tuple[tuple[float | None, str], ...]
GREEN: Steps = ((None, "green"),)


@dataclass(frozen=True)
class Query:
    expr: str
    legend: str = ""  # of each series, `{{label}}`; none: the panel shows one number


def percentiles(
    histogram: str, shares: Sequence[float], by: str = "", where: str = BOTH
) -> tuple[Query, ...]:
    """A line for each share, 0.99 is p99, and each value of the label `by`."""
    label = f"{{{{{by}}}}} " if by else ""
    return tuple(
        Query(quantile(share, histogram, by, where), f"{label}p{share * 100:g}") for share in shares
    )


@dataclass(frozen=True)
class Panel:
    """`unit` is an id of Grafana's; `no_data` is what stands where a line would be."""

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    no_data: str
    kind: Kind = "timeseries"
    stacked: bool = False
    most: float | None = None  # the end of the axis
    steps: Steps = GREEN
    empty_ok: str = ""  # why a healthy deployment may have no such series

    @property
    def width(self) -> int:
        """Of the 24 columns."""
        return 4 if self.kind == "stat" else 8

    @property
    def height(self) -> int:
        return 4 if self.kind == "stat" else 8

    def json(self, number: int, x: int, y: int) -> dict[str, Any]:
        panel = {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            "options": _OPTIONS[self.kind],
            "targets": [self._target(index, query) for index, query in enumerate(self.queries)],
        }
        if self.kind == "table":
            panel["transformations"] = [
                {"id": "organize", "options": {"excludeByName": {"Time": True, "Value": True}}}
            ]
        if self.empty_ok:
            panel["empty_ok"] = self.empty_ok
        return panel

    def _defaults(self) -> dict[str, Any]:
        steps = [{"value": value, "color": color} for value, color in self.steps]
        defaults: dict[str, Any] = {
            "unit": self.unit,
            "noValue": self.no_data,
            "thresholds": {"mode": "absolute", "steps": steps},
        }
        if self.most is not None:
            defaults["max"] = self.most
        if self.kind == "timeseries":
            defaults["min"] = 0
            defaults["custom"] = {
                "drawStyle": "line",
                "lineWidth": 1,
                "fillOpacity": 30 if self.stacked else 10,
                "showPoints": "never",
                "stacking": {"mode": "normal" if self.stacked else "none", "group": "A"},
                "thresholdsStyle": {"mode": "line" if len(self.steps) > 1 else "off"},
            }
        return defaults

    def _target(self, index: int, query: Query) -> dict[str, Any]:
        target: dict[str, Any] = {
            "refId": chr(ord("A") + index),
            "datasource": DATASOURCE,
            "expr": query.expr,
            "legendFormat": query.legend or self.title,
        }
        if self.kind == "heatmap":
            return {**target, "format": "heatmap", "legendFormat": "{{le}}"}
        if self.kind in ("stat", "table"):
            target |= {"instant": True, "range": False}
        return {**target, "format": "table"} if self.kind == "table" else target


_LAST = {"calcs": ["lastNotNull"], "fields": "", "values": False}
_OPTIONS: dict[str, dict[str, Any]] = {
    "timeseries": {
        "tooltip": {"mode": "multi", "sort": "desc"},
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
    },
    "stat": {"reduceOptions": _LAST, "colorMode": "value", "graphMode": "none"},
    "heatmap": {
        "calculate": False,
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
        "yAxis": {"axisPlacement": "left"},
    },
    "table": {"showHeader": True},
}
