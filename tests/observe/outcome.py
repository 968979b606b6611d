"""What a panel's queries give."""

import math
from dataclasses import dataclass, field

from observe.dashboards import Panel, substituted
from observe.lint import RATE_S
from observe.scene import Scene


@dataclass
class Outcome:
    panel: Panel
    samples: list[int] = field(default_factory=list)  # numbers among them, by query
    error: str = ""

    @property
    def holds(self) -> bool:
        """Every query is understood and, unless the panel says otherwise, gives numbers."""
        return not self.error and (self.panel.empty_ok or all(self.samples))

    def line(self) -> str:
        found = self.error or " + ".join(str(count) for count in self.samples) + " samples"
        if not self.error and not all(self.samples):
            found += f" (may be empty: {self.panel.json['empty_ok']})" if self.holds else " EMPTY"
        return f"{'ok ' if self.holds else 'BAD'}  {self.panel.name:56} {found}"


def ask(scene: Scene, panel: Panel) -> Outcome:
    """By `query_range` over the whole scene, as a graph of Grafana does."""
    outcome = Outcome(panel)
    range_s = math.ceil(scene.ended_s - scene.began_s)
    for expr in panel.exprs:
        try:
            data = scene.prometheus.get(
                "query_range",
                query=substituted(expr, RATE_S, range_s),
                start=scene.began_s,
                end=scene.ended_s,
                step=1,
            )
        except RuntimeError as error:
            outcome.error = str(error)
            return outcome
        values = [float(value) for series in data["result"] for _, value in series["values"]]
        outcome.samples.append(sum(math.isfinite(value) for value in values))
    return outcome
