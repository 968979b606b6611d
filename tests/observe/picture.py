"""`python -m observe.picture FILE`: load on a real model, drawn as the dashboards show it."""

import argparse
import asyncio
import contextlib
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from deployment import deployment
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, FuncFormatter, PercentFormatter
from observe.dashboards import Panel, panels, substituted
from observe.lint import RATE_S
from observe.traffic import Callers
from prometheus_server import PrometheusServer, running_prometheus
from redis_server import free_port, running_redis

SHOWN = (
    *("overview / Requests by code", "overview / Latency", "overview / Mean time by stage"),
    *("queue / Tokens waiting or running", "queue / Capacity and demand"),
    *("queue / Tokens a batch, how many each", "workers / Live workers"),
    *("queue / Redelivered jobs", "queue / Refused by admission"),
)
COLUMNS, ROWS = 3, 3
STYLE = {
    **{"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True},
    **{"axes.axisbelow": True, "grid.color": "#2c3235"},
    **{"figure.facecolor": "#111217", "axes.facecolor": "#181b1f"},
    "axes.prop_cycle": mpl.cycler(
        color=["#73bf69", "#f2cc0c", "#5794f2", "#ff780a", "#f2495c", "#b877d9"]
    ),
}
PHASES_S = (40.0, 40.0, 50.0, 30.0)  # calm, busy, more than is possible, calm again


def main() -> None:
    parser = argparse.ArgumentParser(prog="observe.picture")
    parser.add_argument("file", type=Path)
    file = parser.parse_args().file
    ports = [free_port() for _ in range(3)]
    gateway, *workers = [f"127.0.0.1:{port}" for port in ports]
    with (
        tempfile.TemporaryDirectory() as directory,
        running_redis() as redis,
        running_prometheus({"florilege-gateway": [gateway], "florilege-worker": workers}) as seen,
        deployment(redis.url, Path(directory)) as deployed,
    ):
        for port in ports[1:]:
            deployed.worker("--admin-port", str(port))
        front = deployed.gateway("--admin-port", str(ports[0]), "--max-queue-s", "2")
        deployed.settle()
        front.wait_for(lambda: front.metric("florilege_live_workers") == len(workers))
        began_s = time.time()
        asyncio.run(_load(front.url, deployed.processes[0].process.kill))
        draw(seen, began_s, time.time(), file)


async def _load(url: str, lose_a_worker: Callable[[], None]) -> None:
    """Four phases; in the third a worker is lost."""
    calm_s, busy_s, flood_s, end_s = PHASES_S
    callers = Callers(url, key="none")  # nobody made one: the gateway is open
    async with callers.busy(clients=2):
        await asyncio.sleep(calm_s)
        async with callers.busy(clients=8):
            await asyncio.sleep(busy_s)
            flood = asyncio.create_task(_flood(callers))
            await asyncio.sleep(flood_s / 2)
            lose_a_worker()
            await asyncio.sleep(flood_s / 2)
            flood.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await flood
        await asyncio.sleep(end_s)
    await callers.close()


async def _flood(callers: Callers) -> None:
    while True:
        await callers.at_once(12, 8)


def draw(seen: PrometheusServer, began_s: float, ended_s: float, file: Path) -> None:
    """The panels of SHOWN, by the queries that Grafana would ask."""
    by_name = {panel.name: panel for panel in panels()}
    with plt.style.context(["dark_background", STYLE]):
        figure, grid = plt.subplots(ROWS, COLUMNS, figsize=(15, 9), layout="constrained")
        for axes, name in zip(grid.flat, SHOWN, strict=True):
            panel = by_name[name]
            series = [
                (_named(target["legendFormat"], one["metric"]), one["values"])
                for target in panel.json["targets"]
                for one in _asked(seen, target["expr"], began_s, ended_s)
            ]
            _draw_panel(axes, panel, series, began_s)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=100)
        plt.close(figure)


def _asked(seen: PrometheusServer, expr: str, began_s: float, ended_s: float) -> Any:
    query = substituted(expr, RATE_S, round(ended_s - began_s))
    found = seen.get("query_range", query=query, start=began_s, end=ended_s, step=1)["result"]
    assert found, expr
    return found


def _named(legend: str, labels: dict[str, str]) -> str:
    name = re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), legend)
    return name.replace("sentence-transformers/", "")


def _draw_panel(axes: Axes, panel: Panel, series: list[Any], began_s: float) -> None:
    defaults = panel.json["fieldConfig"]["defaults"]
    axes.set_title(panel.json["title"], loc="left", fontsize=10)
    times = np.unique([at for _, values in series for at, _ in values])
    rows = np.full((len(series), len(times)), np.nan)
    for row, (_, values) in zip(rows, series, strict=True):
        at, numbers = np.array(values, float).T
        row[np.searchsorted(times, at)] = numbers
    elapsed_s, names = times - began_s, [name for name, _ in series]
    if panel.json["type"] == "heatmap":
        _draw_heatmap(axes, elapsed_s, names, rows)
    elif defaults["custom"]["stacking"]["mode"] == "normal":
        axes.stackplot(elapsed_s, np.nan_to_num(rows), labels=names, alpha=0.7)
    else:
        axes.plot(elapsed_s, rows.T, label=names, linewidth=1.2)
    if panel.json["type"] != "heatmap":
        axes.yaxis.set_major_formatter(_formatter(defaults["unit"]))
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left", fontsize=7, framealpha=0.4)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda s, _: f"{s // 60:.0f}:{s % 60:02.0f}"))
    axes.set_xlim(0, sum(PHASES_S))


def _draw_heatmap(axes: Axes, elapsed_s: Any, names: list[str], rows: Any) -> None:
    """Buckets count up: what fell into each is the difference to the one below."""
    order = np.argsort([float(name) for name in names])
    counts = np.diff(np.nan_to_num(rows[order]), axis=0, prepend=0).clip(0)
    bounds = [names[index] for index in order]
    used = np.flatnonzero(counts.sum(axis=1))
    low, high = used.min(), used.max() + 1
    axes.grid(visible=False)
    axes.pcolormesh(elapsed_s, np.arange(high - low), counts[low:high], cmap="inferno")
    axes.set_yticks(np.arange(high - low), [f"≤ {float(b):,.0f}" for b in bounds[low:high]])


def _formatter(unit: str) -> Any:
    match unit:
        case "percentunit":
            return PercentFormatter(1)
        case "reqps" | "ops":
            return FuncFormatter(lambda value, _: f"{value:g}/s")
        case "short" | "none":
            return FuncFormatter(lambda value, _: f"{value:g}")
        case "bytes":
            return EngFormatter("B", sep=" ")
        case _:
            return EngFormatter(unit.removeprefix("si:"), sep=" ")


if __name__ == "__main__":
    main()
