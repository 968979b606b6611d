"""A dashboard: rows of panels, the variables that all dashboards share, and its JSON."""

from dataclasses import dataclass
from itertools import count
from typing import Any

from deploy.grafana.builder.panel import DATASOURCE, Panel

_COLUMNS = 24
_SCHEMA = 39  # Grafana 10.4 and later; newer ones migrate it


@dataclass(frozen=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Dashboard:
    """`name` is its file's, and with a prefix its uid: links to it stay."""

    name: str
    title: str
    description: str
    rows: tuple[Row, ...]

    def json(self) -> dict[str, Any]:
        return {
            "uid": f"florilege-{self.name}",
            "title": f"Florilege / {self.title}",
            "description": self.description,
            "tags": ["florilege"],
            "schemaVersion": _SCHEMA,
            "version": 1,
            "editable": False,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "",
            "graphTooltip": 1,  # one crosshair for all panels
            "links": [_LINK],
            "templating": {"list": _variables()},
            "annotations": {"list": []},
            "panels": self._placed(),
        }

    def _placed(self) -> list[dict[str, Any]]:
        """Left to right, a new line where the next panel does not fit."""
        placed: list[dict[str, Any]] = []
        numbers, y = count(1), 0
        for row in self.rows:
            place = {"x": 0, "y": y, "w": _COLUMNS, "h": 1}
            title = {"id": next(numbers), "type": "row", "title": row.title, "collapsed": False}
            placed.append({**title, "gridPos": place, "panels": []})
            x, y, line = 0, y + 1, 0
            for panel in row.panels:
                if x + panel.width > _COLUMNS or (line and panel.height != line):
                    x, y = 0, y + line
                line = panel.height
                placed.append(panel.json(next(numbers), x, y))
                x += panel.width
            y += line
        return placed


_LINK = {
    "type": "dashboards",
    "title": "Florilege",
    "tags": ["florilege"],
    "asDropdown": True,
    "includeVars": True,
    "keepTime": True,
    "icon": "external link",
}


def _variables() -> list[dict[str, Any]]:
    return [
        {
            "name": "datasource",
            "label": "Prometheus",
            "type": "datasource",
            "query": "prometheus",
            "refresh": 1,
        },
        _of_label("model", "Model", "florilege_live_workers"),
        _of_label("instance", "Process", "florilege_build_info"),
    ]


def _of_label(name: str, label: str, metric: str) -> dict[str, Any]:
    """All of them at first; `.*` also takes series without that label."""
    query = f"label_values({metric}, {name})"
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
