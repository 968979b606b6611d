"""What the operators' page says in figures and queries: they are asked, computed and looked up."""

import math
import re

import pytest
from observe.promql import uses
from observe.series import labels
from prometheus_server import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text()
MEASURED = ROOT / "bench" / "results" / "redis" / "2026-11-29-scale.md"
MS_A_REQUEST = "gateway CPU, ms a request"


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def fenced(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", section("Sizing"), re.DOTALL)


QUERIES = fenced("promql")
STEPS = [line for block in fenced("text") for line in block.splitlines()]


def computed(term: str) -> float:
    term = term.replace(",", "").replace("×", "*").replace("÷", "/").replace("−", "-")
    term = term.replace("⌈", "ceil(").replace("⌉", ")")
    assert re.fullmatch(r"(ceil|[\d.+*/() -])+", term), term
    return float(eval(term, {"ceil": math.ceil, "__builtins__": {}}))  # noqa: S307, figures alone


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_query_for_sizing_asks_for_what_exists(query: str) -> None:
    known = labels()
    asked = uses(query)
    assert asked
    for use in asked:
        assert use.labels <= known[use.metric], use.metric


def test_sizing_has_queries_for_demand_and_for_the_capacity_of_a_worker() -> None:
    asked = {use.metric for query in QUERIES for use in uses(query)}
    assert asked >= {
        *("florilege_tokens_total", "florilege_batch_tokens_sum"),
        *("florilege_padding_tokens_total", "florilege_batch_duration_seconds_sum"),
        *("florilege_capacity_tokens_per_second", "florilege_live_workers"),
    }


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.partition(":")[0])
def test_step_of_the_example_is_what_its_formula_gives(step: str) -> None:
    term, told = step.rpartition(":")[2].split("=")
    assert computed(term) == pytest.approx(computed(told), rel=0.01)


def test_example_goes_on_with_its_own_results() -> None:
    told = {name: text.strip() for name, _, text in (step.rpartition(":") for step in STEPS)}
    demand = told["demand, tokens/s"].split("= ")[1]
    workers = told["with one that may die"].split("= ")[1]
    assert told["workers at a share of 0.65"].startswith(f"⌈{demand} ÷")
    assert told["share used by three"].startswith(f"{demand} ÷ ({workers} ×")
    cost = told["CPU of a gateway, ms a request"].split("= ")[1]
    assert f"× {cost} ÷" in told["cores of gateways"]
    cores = told["cores of gateways"].split("= ")[1]
    assert told["gateways at a share of 0.6"].startswith(f"⌈{cores} ÷")


def test_costs_of_gateways_are_those_that_were_measured() -> None:
    rows = re.findall(
        r"^\| (\d+ × \d+) \| ([\d.]+)–([\d.]+) \| ([\d.,]+)", section("Sizing"), re.MULTILINE
    )
    assert {name: tuple(figures) for name, *figures in rows} == _measured()


def _measured() -> dict[str, tuple[str, ...]]:
    """By shape: least and most CPU of a request in ms, and most requests/s; as they are written."""
    found = {}
    for part in MEASURED.read_text().split("\n## ")[1:]:
        lines = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in part.splitlines()
            if line.startswith("|")
        ]
        if MS_A_REQUEST in lines[0]:
            costs = [row[lines[0].index(MS_A_REQUEST)] for row in lines[2:]]
            rates = [row[lines[0].index("requests/s")] for row in lines[2:]]
            most = max(rates, key=lambda rate: float(rate.replace(",", "")))
            shape = part.partition(" tokens")[0]
            found[shape] = (min(costs, key=float), max(costs, key=float), most)
    return found


def test_rolling_back_tells_of_images_database_and_chart() -> None:
    way_back = section("Upgrading").split("\n### Rolling back\n")[1]
    for word in ("version_num", "backup", "exit 78", "helm rollback", "docker compose up", "tag"):
        assert word in way_back, word
    way_there = section("Upgrading").split("\n### Rolling back\n")[0]
    for word in ("florilege db upgrade", "pg_dump", "helm upgrade", "appVersion", "VERSION"):
        assert word in way_there, word
