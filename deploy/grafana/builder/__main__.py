"""`python -m deploy.grafana.builder`: writes deploy/grafana/dashboards/*.json."""

import json
from pathlib import Path

from deploy.grafana.builder.overview import OVERVIEW
from deploy.grafana.builder.queue import QUEUE
from deploy.grafana.builder.redis import REDIS
from deploy.grafana.builder.tenants import TENANTS
from deploy.grafana.builder.workers import WORKERS

DIRECTORY = Path(__file__).parents[1] / "dashboards"


def files() -> dict[str, str]:
    """The text of each, by its name."""
    return {
        f"{dashboard.name}.json": json.dumps(dashboard.json(), indent=2, ensure_ascii=False) + "\n"
        for dashboard in (OVERVIEW, QUEUE, WORKERS, TENANTS, REDIS)
    }


if __name__ == "__main__":
    DIRECTORY.mkdir(exist_ok=True)
    for name, text in files().items():
        (DIRECTORY / name).write_text(text)
